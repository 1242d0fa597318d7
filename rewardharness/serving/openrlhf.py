"""A reward function for OpenRLHF, with rewards from `rh serve`.

OpenRLHF (0.11) loads `reward_func` from the file that `--reward.remote_url` names:

    from rewardharness.serving.openrlhf import make_reward_func

    reward_func = make_reward_func("http://127.0.0.1:8100", release="3f0c...")

It trains models of text, so a response is judged as text, and the label is the instruction if there is one; `ask` makes
another question of them, such as one about an image that the response draws. A response that was not judged raises
`RewardServerError`: OpenRLHF logs it and leaves the sample without a reward.
"""

from collections.abc import Callable, Sequence
from typing import Any

from rewardharness.schema import TextInput
from rewardharness.serving.client import Ask, ClientSettings, RewardClient
from rewardharness.serving.client_http import USUAL
from rewardharness.serving.client_wire import require_rewards
from rewardharness.settings import Settings

END_TOKENS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<end_of_turn>", "</s>")
"""Tokens at the end of a response, which are not part of it."""


def ask_text(response: str, prompt: str, label: str | None) -> Ask:
    """Ask about a response as a text."""
    return Ask(label or prompt, None, TextInput("response", response))


def make_reward_func(
    url: str,
    *,
    release: str | None = None,
    token: str | None = None,
    ask: Callable[[str, str, str | None], Ask] = ask_text,
    settings: ClientSettings = USUAL,
) -> Callable[..., dict[str, Any]]:
    """Make a reward function as OpenRLHF calls it.

    Args:
        url: Address of the reward server.
        release: Hash of the release that must be served: training does not begin with another one.
        token: What the server asks its callers for; None for RH_SERVER_TOKEN.
        ask: Makes a question of response, prompt and label.
        settings: How the server is asked.

    Returns:
        A function of queries (prompts with responses), prompts and labels.

    Raises:
        IdentityError: If the server judges with another release.
        RewardServerError: If the server is not there.
    """
    client = RewardClient(url, release=release, token=token or Settings.from_env().server_token, settings=settings)

    def reward_func(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[str | None]) -> dict[str, Any]:
        rows = zip(queries, prompts, labels, strict=True)
        asks = [ask(_response(query, prompt), prompt, label) for query, prompt, label in rows]
        values = require_rewards(client.score(asks), "response")
        # OpenRLHF asks about one response at a time, and makes a tensor of the number.
        rewards = values[0] if len(values) == 1 else values
        return {"rewards": rewards, "scores": rewards, "extra_logs": {}}

    return reward_func


def _response(query: str, prompt: str) -> str:
    """Return what follows the prompt, without the tokens at its end."""
    response = query.removeprefix(prompt).strip()
    while ended := next((token for token in END_TOKENS if response.endswith(token)), None):
        response = response.removesuffix(ended).rstrip()
    return response
