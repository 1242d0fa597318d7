"""Asking vision-language models: OpenAI-compatible servers, Gemini, and scripts."""
