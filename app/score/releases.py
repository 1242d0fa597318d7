"""A release that the Score tab is fixed to. It determines judge and Library; visitors have no choice."""

from dataclasses import dataclass, field

from app.score.judges import PUBLIC_DEADLINE, RETRIES, Used, price_of
from rewardharness.errors import InputError
from rewardharness.judging.config import MEASURED, JudgeConfig
from rewardharness.judging.deployments import find_release
from rewardharness.judging.judge import Judge
from rewardharness.judging.opening import open_release
from rewardharness.judging.subagent import reuse
from rewardharness.settings import Settings

RELEASE = "release"
"""Choice of the Library and the judge of a release."""


@dataclass(frozen=True)
class Places:
    """Addresses (or complete model specs) of the models of a release, which does not contain them."""

    judge: str | None = field(default=None, repr=False)
    """None: from `RH_JUDGE`."""
    router: str | None = field(default=None, repr=False)


DEFAULT_PLACES = Places()
"""The addresses in the settings."""


class Fixed:
    """The release that this app is fixed to. Opened once, when the app starts; later deployments have no effect.

    Args:
        settings: The settings; `release` names it.
        places: Addresses of its models.
        local: Whether visitors use this computer.

    Raises:
        DataError: If there is no such file.
        ReleaseError: If it was modified, or this installation cannot reproduce it.
        InputError: If the address of its model is unknown.
    """

    def __init__(self, settings: Settings, places: Places, *, local: bool) -> None:
        assert settings.release is not None
        self.release = find_release(settings.release, settings)
        self.places, self._settings, self._local = places, settings, local
        self.name = f"release {self.release.id[:12]}"
        """Its name in a sentence."""
        self.library = self.release.library
        self.by_model = self.release.judge != MEASURED
        """Whether its judge is a model."""
        self.hides = self.by_model and not local
        """Whether messages of its model, which may contain an address, must not be shown."""
        self.price = price_of(settings)
        # Opened without a cache: this only detects errors early.
        self._measured = self._opened(cache=False)

    def open(self, used: Used | None = None) -> Judge:
        """Open its judge. Sends no request.

        Args:
            used: The idle model that this visitor has used before; the capabilities of its servers are known.
        """
        if not self.by_model:
            return self._measured
        judge = self._opened(cache=True)
        return reuse(judge, used.judge) if used is not None and used.choice.kind == RELEASE else judge

    def check_api(self) -> None:
        """Check that API requests may use this judge.

        Raises:
            InputError: If the app is public and the judge is a model, which costs the app's owner.
        """
        if self.hides:
            problem = f"This app is fixed to {self.name}, whose judge is a model. It does not accept API requests here."
            raise InputError(problem, next_step="Use the page, or a reward server: rh serve --release.")

    def _opened(self, *, cache: bool) -> Judge:
        places = self.places
        config = JudgeConfig(judge=places.judge, router=places.router, no_cache=not cache, retries=RETRIES)
        limits = {} if self._local else {"deadline": PUBLIC_DEADLINE}
        return open_release(self.release, self._settings, config, pictures=self.by_model, **limits)
