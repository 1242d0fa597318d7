"""Hugging Face Inference Providers: image to image."""

import io

from rewardharness.errors import DataError


def edit_image(model: str, image: bytes, prompt: str, *, provider: str, token: str, seconds: float) -> bytes:
    """Edit an image.

    Args:
        model: Name of the model, or the address of an Inference Endpoint.
        image: The encoded image.
        prompt: The instruction.
        provider: Name of the provider; `auto` for the first one of the account's settings.
        token: Token of the account that pays.
        seconds: Timeout.

    Returns:
        The edited image as PNG.

    Raises:
        DataError: If there is none.
    """
    from huggingface_hub import InferenceClient

    try:
        client = InferenceClient(provider=provider, token=token, timeout=seconds)  # type: ignore[arg-type]
        made = client.image_to_image(image, prompt=prompt, model=model)
    except Exception as error:  # the providers' clients raise nearly every exception
        reason = f"{type(error).__name__}: {' '.join(str(error).replace(token, '…').split())[:200]}"
        step = "Check the model, its providers, and the credit of the account."
        raise DataError(f"{model} gave no edit ({reason}).", next_step=step) from None
    file = io.BytesIO()
    made.save(file, "PNG")
    return file.getvalue()
