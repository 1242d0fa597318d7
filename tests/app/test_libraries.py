"""Libraries that visitors choose, here and on the Hub."""

from pathlib import Path
from threading import Event

import pytest
from app_parts import make_services
from drawn_pairs import two_skills
from evolve_parts import make_pairs, make_timid
from hostile import HOSTILE, read_own
from hub_parts import running_hub

from app.library import libraries, views
from app.library.edit_page import EditedCopy, judge_again, save_copy
from app.library.libraries import (
    ANONYMOUS,
    BUILTIN,
    DEFAULT,
    FOLDER,
    HUB,
    Choice,
    HubServices,
    Libraries,
    Order,
    RightsError,
    Visitor,
)
from app.library.views import summary
from app.run_panel.new_jobs import FOLDER as PAIRS
from app.services import AppServices
from rewardharness.errors import HarnessError, InputError
from rewardharness.library.diff import diff_libraries
from rewardharness.library.entry import ENTRY_FILE, RUBRIC_FILE, entry_files
from rewardharness.library.hub import HubError, PushOptions, UnreachableError, push
from rewardharness.library.new import new_library
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY, AddEntry, Library
from rewardharness.settings import Settings


def make(*, local: bool = True, library: str = "") -> Libraries:
    return Libraries(Settings.from_env({"RH_LIBRARY": library}), None, local=local)


def test_folders_can_be_named_only_at_this_computer(hostile_library: Path) -> None:
    here, elsewhere = make(), make(local=False)
    choice = Choice(FOLDER, f" {hostile_library} ")
    assert len(here.open(choice)) == 2
    assert [kind for _, kind in elsewhere.choices()] == [BUILTIN, HUB]
    with pytest.raises(InputError, match="only on the computer"):
        elsewhere.open(choice)


def test_a_folder_named_like_the_builtin_library_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HarnessError, match="folder does not exist"):
        make().open(Choice(FOLDER, "builtin"))
    for empty in (Choice(FOLDER, "  "), *(Choice(kind, None, None) for kind in (FOLDER, HUB))):  # type: ignore[arg-type]
        with pytest.raises(InputError, match="is missing"):
            make().open(empty)  # Gradio hands a field that nobody has touched over as None


def test_the_library_of_the_settings_comes_first(hostile_library: Path) -> None:
    libraries = make(library=str(hostile_library), local=False)
    assert [kind for _, kind in libraries.choices()] == [DEFAULT, BUILTIN, HUB]
    assert len(libraries.open(Choice(DEFAULT))) == 2


def test_a_library_is_called_as_it_calls_itself(tmp_path: Path) -> None:
    here, place = make(), tmp_path / "library"
    choice = Choice(FOLDER, str(place))
    assert here.name(choice) == "the Library 'library'", "it is not there yet"
    new_library(place, "my-library")
    assert here.name(choice) == "the Library 'my-library'"
    assert make(library=str(place)).choices()[0] == ("From RH_LIBRARY: my-library", DEFAULT)
    assert "\n# my-library\n" in here.card(choice)
    EMPTY.save(tmp_path / "unnamed")
    assert here.name(Choice(FOLDER, str(tmp_path / "unnamed"))) == "the Library 'unnamed'"


def test_what_grew_from_the_builtin_library_does_not_go_by_its_name(tmp_path: Path) -> None:
    open_library("builtin").save(tmp_path / "grown")
    assert make().name(Choice(FOLDER, str(tmp_path / "grown"))) == "the Library 'grown'"
    assert "\n# your-library\n" in make().card(Choice())


def test_a_foreign_name_stays_one_line_of_text(hostile_library: Path) -> None:
    libraries, choice = make(), Choice(FOLDER, str(hostile_library))
    name = libraries.name(choice)
    assert "<script>" in name and "\n" not in name and len(name) < 120 and "https://evil" not in name
    read_own(summary(libraries.open(choice), name))
    title = next(line for line in libraries.card(choice).splitlines() if line.startswith("# "))
    assert "script" in title and not set("<>[]") & set(title)


def test_checking_and_comparing_libraries(hostile_library: Path) -> None:
    libraries = make()
    assert not [problem for problem in libraries.check(Choice()) if problem.severity == "error"]
    found = diff_libraries(libraries.open(Choice()), libraries.open(Choice(FOLDER, str(hostile_library))))
    assert [entry.name for entry in found.added] == ["evil-skill", "evil-tool"] and found.removed


REPO = "ann/library"


def test_strangers_share_neither_tokens_nor_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_hub(tmp_path, monkeypatch) as hub:
        owner = hub.user("ann")
        commit = push(two_skills(), REPO, PushOptions(private=True), access=owner).commit
        env = {"HF_ENDPOINT": hub.server.url, "HF_HUB_CACHE": str(owner.cache), "RH_HOME": str(tmp_path)}
        settings = Settings.from_env({**env, "SYSTEM": "spaces", "OAUTH_CLIENT_ID": "app"})
        monkeypatch.setenv("HF_TOKEN", str(owner.token))
        services = HubServices(settings, tmp_path / "scratch", local=False)
        ann = Visitor("ann", str(owner.token))
        assert services.load(f"{REPO}@{commit}", ann).pulled.version in {None, "v0.1.0"}
        for visitor in (ANONYMOUS, Visitor("bob", hub.server.login("bob"))):
            with pytest.raises(HubError, match="There is no ann/library"):
                services.load(f"{REPO}@{commit}", visitor)
        assert str(owner.token) not in repr(ann) + repr(services.access(ann))
        order = Order(two_skills(), "ann/mine", PushOptions())
        for visitor in (ANONYMOUS, Visitor("bob", hub.server.login("bob")), Visitor("", str(owner.token))):
            with pytest.raises(RightsError):
                services.preview(order, visitor)
        with pytest.raises(RightsError, match="Folders"):
            services.preview(Order(tmp_path, "ann/mine", PushOptions()), ann)


def test_what_is_loaded_is_what_is_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_hub(tmp_path, monkeypatch) as hub:
        access = hub.user("ann")
        push(two_skills(), REPO, access=access)
        settings = Settings.from_env({"HF_ENDPOINT": hub.server.url, "RH_HOME": str(tmp_path), "RH_LIBRARY": REPO})
        services = AppServices(settings, tmp_path / "scratch", local=False)
        loaded = services.hub.load(REPO, ANONYMOUS)
        choice = Choice(HUB, "", REPO, loaded)
        assert services.libraries.open(choice).id == two_skills().id
        assert services.libraries.card(choice).startswith("---")
        assert services.libraries.name(choice) == "the Library 'ann/library@v0.1.0'"
        assert not [each for each in services.libraries.check(choice) if each.severity == "error"]
        with pytest.raises(InputError, match="is not loaded yet"):
            services.libraries.open(Choice(HUB, "", "ann/other", loaded))
        assert services.libraries.choices()[0][0] == "From RH_LIBRARY: ann/library"


def drafted(library: Library, name: str) -> EditedCopy:
    entry = library.get(name)
    assert entry is not None
    return EditedCopy(library, library, entry)


@pytest.mark.parametrize(
    ("file", "old", "new", "problem"),
    [
        (RUBRIC_FILE, "weight: 4", "weight: -4", "the weight is not a number of at least 0"),
        (RUBRIC_FILE, "scale: [1, 4]", "scale: [4, 1]", "not a pair of increasing numbers"),
        (RUBRIC_FILE, "measure: text_match", "measure: nothing", "nothing"),
        (RUBRIC_FILE, "criteria:", "criteria: [", "Not valid YAML"),
        (ENTRY_FILE, "  triggers: >-", "  triggers: /(/", ""),
        (ENTRY_FILE, "kind: skill", "kind: tool", "`kind` is 'tool'"),
        (ENTRY_FILE, "---\n", "", "The first line is not"),
    ],
)
def test_an_edit_with_errors_does_not_reach_the_copy(file: str, old: str, new: str, problem: str) -> None:
    draft = drafted(open_library("builtin"), "text-edits")
    texts = entry_files(draft.entry)
    assert old in texts[file]
    failed = draft.edit({**texts, file: texts[file].replace(old, new, 1)})
    assert failed.failed and failed.library is draft.start and problem in read_own(views.problems(failed.problems)).text
    with pytest.raises(InputError, match="text-edits has errors"):
        failed.result()
    done = failed.edit({**texts, ENTRY_FILE: f"{texts[ENTRY_FILE]}\nMind the font.\n"})
    assert not done.failed and done.result().lineage[-1]["entries"] == ["text-edits"]
    assert done.edit(texts).result() == draft.start, "the original texts restore the Library"


def test_copies_are_saved_under_valid_free_names_and_only_here(tmp_path: Path) -> None:
    here, elsewhere = make_services(tmp_path), make_services(tmp_path, local=False)
    draft = drafted(open_library("builtin"), "text-edits")
    texts = entry_files(draft.entry)
    draft = draft.edit({**texts, ENTRY_FILE: texts[ENTRY_FILE] + "More.\n"})
    for name in ("", "../up", "a/b", "/etc", "UPPER", ".", "x" * 65, HOSTILE):
        with pytest.raises(HarnessError, match="name"):
            save_copy(here, draft, name)
    with pytest.raises(RightsError, match="only on the computer"):
        save_copy(elsewhere, draft, "mine")
    assert not (tmp_path / "home" / "libraries").exists()
    saved, folder = save_copy(here, draft, "mine")
    assert folder == tmp_path / "home" / "libraries" / "mine" and Library.load(folder) == draft.library
    assert here.libraries.saved() == [("mine", str(folder))] and elsewhere.libraries.saved() == []
    assert here.libraries.name(Choice(FOLDER, str(folder))) == "the Library 'mine'"
    more = saved.edit({**texts, ENTRY_FILE: texts[ENTRY_FILE] + "Even more.\n"})
    with pytest.raises(InputError, match="another Library named mine"):
        save_copy(here, drafted(EMPTY.apply(AddEntry(draft.entry)), "text-edits"), "mine")
    assert save_copy(here, more, "mine")[1] == folder and Library.load(folder) == more.library
    read_own(views.saved("mine", str(folder)))


def test_an_edit_is_judged_again_where_it_counts(tmp_path: Path) -> None:
    here, elsewhere = make_services(tmp_path), make_services(tmp_path, local=False)
    pairs = str(make_pairs(tmp_path / "pairs"))
    draft = drafted(Library.load(make_timid(tmp_path / "timid")), "timid-removals")
    texts = entry_files(draft.entry)
    nothing = judge_again(here, draft, PAIRS, pairs)
    assert nothing.after.n == 0 and "None of the 48 examples" in read_own(views.judged_again(nothing)).text
    draft = draft.edit({**texts, RUBRIC_FILE: texts[RUBRIC_FILE].replace("edit_extent", "edit_presence")})
    judged = judge_again(here, draft, PAIRS, pairs)
    compared, kinds = judged.comparison, [kind for kind, _ in judged.changed]
    assert judged.labeled == 48 and judged.after.n == 24, "only the removals consult the entry"
    assert (compared.fixes, compared.breaks) == (kinds.count("Fixed"), kinds.count("Broken"))
    text = read_own(views.judged_again(judged)).text
    assert f"{compared.fixes} fixed, {compared.breaks} broken of 24 (McNemar p =" in text and "n = 24, 95% CI" in text
    with pytest.raises(InputError, match="not judged on the computer of this page"):
        judge_again(elsewhere, draft, PAIRS, pairs)


def test_the_gallery_does_not_wait_for_a_silent_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, over = make_services(tmp_path).hub, Event()
    monkeypatch.setattr(libraries, "SEARCH_SECONDS", 0.05)
    monkeypatch.setattr(libraries, "search_libraries", lambda query, access: over.wait(60) and ())
    with pytest.raises(UnreachableError, match="did not answer within"):
        here.search("", ANONYMOUS)
    over.set()
    monkeypatch.setattr(libraries, "SEARCH_SECONDS", 60)
    assert here.search("", ANONYMOUS) == ((), False)
    over.clear()
    monkeypatch.setattr(libraries, "SEARCH_SECONDS", 0.05)
    assert here.search("", ANONYMOUS) == ((), True), "the last answer is shown"
    over.set()
