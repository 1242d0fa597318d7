"""A release that the Score tab is fixed to: it says what judges and with which Library, and visitors choose nothing."""

from dataclasses import dataclass, field, replace

from app.judges import ATTEMPTS, PUBLIC_DEADLINE, Used
from rewardharness.errors import InputError
from rewardharness.judging.deployments import find_release
from rewardharness.judging.judge import Judge
from rewardharness.judging.opening import MEASURED, JudgeOptions
from rewardharness.judging.release_opening import open_release
from rewardharness.judging.subagent import SubAgentSettings
from rewardharness.library.store import Library
from rewardharness.schema import Failure
from rewardharness.settings import Settings

RELEASE = "release"
"""Choice of the Library, and of the judge, that a release fixes."""


@dataclass(frozen=True)
class Places:
    """Where the models of a release are served: addresses, or whole spellings. The release itself does not know."""

    judge: str | None = field(default=None, repr=False)
    """None: as `RH_JUDGE` says."""
    router: str | None = field(default=None, repr=False)


UNSAID = Places()
"""Nothing is said but what the settings say."""


class Fixed:
    """A release as this app keeps to it. Opened once, when the app starts; what is deployed later changes nothing.

    Args:
        settings: The settings; `release` names it.
        places: Where its models are served.
        local: Whether visitors sit at this computer.

    Raises:
        DataError: If there is no such file.
        ReleaseError: If it was changed, or this installation cannot keep to it.
        InputError: If nothing says where its model is served.
    """

    def __init__(self, settings: Settings, places: Places, *, local: bool) -> None:
        assert settings.release is not None
        self.release = find_release(settings.release, settings)
        self.places, self._settings, self._local = places, settings, local
        # Opened without a cache: this is to tell at once what would go wrong, and makes nothing.
        self._measured = self._opened(cache=False)

    @property
    def name(self) -> str:
        """What to call it in a sentence."""
        return f"release {self.release.id[:12]}"

    @property
    def library(self) -> Library:
        """Its Library."""
        return self.release.library

    @property
    def by_model(self) -> bool:
        """Whether its judge is a model."""
        return self.release.judge != MEASURED

    @property
    def price(self) -> tuple[float, float] | None:
        """US dollars for a million input and output tokens, as the settings say; None: not known."""
        price = self._settings.price_input, self._settings.price_output
        return None if price[0] is None or price[1] is None else (price[0], price[1])

    def open(self, used: Used | None = None) -> Judge:
        """Open its judge. Nothing is sent before it judges.

        Args:
            used: Its model as this visitor has used it before, while it is not at work: what its servers can do is
                known then.
        """
        if not self.by_model:
            return self._measured
        judge = self._opened(cache=True)
        return judge.reusing(used.judge) if used is not None and used.choice.kind == RELEASE else judge

    def tell(self, failure: Failure) -> Failure:
        """What a visitor may know of a failure: not the words about a model, which may name its address."""
        return replace(failure, message="") if self.by_model and not self._local else failure

    def check_programs(self) -> None:
        """Make sure that programs may have this judge judge, as often as they like.

        Raises:
            InputError: If they are strangers', and each judgment costs whoever runs the app.
        """
        if self.by_model and not self._local:
            raise InputError(
                f"This app is fixed to {self.name}, whose judge is a model. It does not judge for programs here.",
                next_step="Use the page, or a reward server: rh serve --release.",
            )

    def _opened(self, *, cache: bool) -> Judge:
        options = JudgeOptions(
            pictures=True,
            subagent=SubAgentSettings() if self._local else SubAgentSettings(deadline=PUBLIC_DEADLINE),
            router=self.places.router,
            cache=cache,
            attempts=ATTEMPTS,
        )
        return open_release(self.release, self._settings, endpoint=self.places.judge, options=options)[0]
