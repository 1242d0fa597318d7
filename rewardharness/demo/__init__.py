"""Generated demonstration data: drawn scenes and edited photographs with known better candidates."""
