"""Client of the Hugging Face Hub for Libraries, datasets and Spaces; the only importer of `huggingface_hub`."""
