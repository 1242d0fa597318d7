"""Numbers that are out of range, and words that a command does not know, are a wrong command line: status 2."""

import json

import pytest

from rewardharness.cli.main import main


@pytest.mark.parametrize(
    "words",
    [
        ("score", "pairs", "--limit", "-1"),
        ("score", "pairs", "--limit", "0"),
        ("score", "pairs", "--concurrency", "0"),
        ("benchmark", "pairs", "--limit", "0"),
        ("benchmark", "pairs", "--concurrency", "-2"),
        ("data", "rank", "samples", "--limit", "-1"),
        ("data", "filter", "pairs", "-o", "x.jsonl", "--agree", "--limit", "0"),
        ("data", "pairs", "samples", "-o", "x", "--concurrency", "0"),
        ("evolve", "--data", "pairs", "--proposals", "0"),
        ("evolve", "--data", "pairs", "--batch", "0"),
        ("benchmark", "reproduce", "--smoke", "--limit", "0"),
        ("benchmark", "reproduce", "--smoke", "--pairs", "7"),
        ("serve", "judge", "model", "--gpus", "0"),
        ("app", "--port", "65536"),
    ],
)
def test_a_number_out_of_range_is_said_before_anything_is_done(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    shown = capsys.readouterr()
    assert not shown.out and words[-2] in shown.err and words[-1] in shown.err


@pytest.mark.parametrize(
    ("words", "help_"),
    [
        (("score", "pairs", "--nothing"), "rh score --help"),
        (("library", "show", "--nothing", "new"), "rh library show --help"),
        (("benchmark", "pairs", "--nothing"), "rh benchmark run --help"),
        (("data", "demo", "folder", "--nothing", "12"), "rh data demo --help"),
    ],
)
def test_an_unknown_option_is_named_with_the_help_of_its_command(
    words: tuple[str, ...], help_: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    shown = capsys.readouterr().err
    assert "Unknown option: --nothing" in shown and help_ in shown


def test_a_wrong_argument_is_json_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evolve", "demo", "--proposals", "0", "--json"]) == 2
    assert "--proposals 0 is out of range" in json.loads(capsys.readouterr().out)["error"]["detail"]
    assert main(["release", "show", "nowhere.json", "--json"]) == 1
    assert "nowhere.json" in json.loads(capsys.readouterr().out)["error"]["detail"]


def test_help_fits_on_one_screen_and_names_similar_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 45 and max(map(len, lines)) <= 110
    assert main(["benchmrk"]) == 2
    assert "Did you mean benchmark?" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_commands_and_options(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--show-completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(word in script for word in ("push-library", "rollback", "--proposals"))
