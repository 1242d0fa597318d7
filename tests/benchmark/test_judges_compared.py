"""Several judges in one run: a file of judges with options, one table, paired tests, agreement, exploits, failures."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from bench_parts import job, made, pixels, settings
from model_server import Call, ModelServer
from profile_parts import canned, marker, stand_in
from synthetic import edit, source

from rewardharness.benchmark.config import BenchmarkConfig
from rewardharness.benchmark.loading import open_benchmark
from rewardharness.benchmark.report import markdown
from rewardharness.benchmark.result import parse_result, read_result
from rewardharness.benchmark.task import open_task
from rewardharness.cli.command import parse
from rewardharness.cli.main import main
from rewardharness.codec import to_json
from rewardharness.demo.attacks import make_attacks
from rewardharness.errors import InputError
from rewardharness.files import write_bytes
from rewardharness.jobs import sent_to
from rewardharness.judging.config import JudgeConfig, split_options
from rewardharness.judging.profile_opening import load_profile
from rewardharness.library.card import CardSubject, known_facts, make_card, make_config, read_config
from rewardharness.library.card_parts import read_card
from rewardharness.library.entry import Entry
from rewardharness.library.store import EMPTY, AddEntry

PROFILES = ("editscore", "imgedit-judge", "rationalrewards-edit", "pvc-judge")
"""Replies in JSON, lines and sections, and a choice between two candidates."""
GRADES = {"instruction": 3, "quality": 3}
PREFERS_A = json.dumps({"preference": "A", "scores": {"A": GRADES, "B": GRADES}})
BROKEN = 7
"""The pair about which every reply is broken."""


def ten_pairs(folder: Path) -> Path:
    folder.mkdir()
    rows = []
    for number in range(10):
        images = {"source": source(number), "candidate_a": edit(15), "candidate_b": edit(number)}
        for name, data in images.items():
            write_bytes(folder / f"{name}{number}.png", data)
        files = {name: f"{name}{number}.png" for name in images}
        row = {"id": f"p{number}", "instruction": f"make the box red, number {number}.", **files}
        rows.append(json.dumps({**row, "preference": "A", "label_kind": "human"}))
    (folder / "pairs.jsonl").write_text("\n".join(rows), encoding="utf-8")
    return folder


def respond(call: Call) -> str | None:
    """What each model would say to its own request; nothing that can be read about one of the pairs."""
    if f"number {BROKEN}." in call.text:
        return "I'm sorry, but I can't assist with that request."
    profiles = [load_profile(name)[0] for name in PROFILES]
    asked = [each for each in profiles if any(marker(each, text) in call.text for text in each.texts)]
    return canned(asked[0], call.text) if asked else None


def test_four_profiles_judge_the_same_pairs_and_a_broken_reply_is_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RH_HOME", str(tmp_path / "home"))
    data, run = ten_pairs(tmp_path / "pairs"), tmp_path / "run"
    with ModelServer(respond) as server:
        judges = [{"judge": f"{stand_in(name, tmp_path)}:judge@{server.url}"} for name in PROFILES]
        judges[-1]["one_order"] = True
        (tmp_path / "judges.json").write_text(json.dumps({"judges": judges}), encoding="utf-8")
        words = ["benchmark", str(data), "--judges", str(tmp_path / "judges.json"), "--run", str(run)]
        words += ["--price", "1000", "0"]
        assert main([*words, "--yes", "--quiet", "--json"]) == 3, "one was not judged"
    result = json.loads(capsys.readouterr().out)
    for row, name in zip(result["rows"], PROFILES, strict=True):
        assert row["protocol"].startswith(f"profile:{name}@")
        assert (row["items"], row["judged"], row["coverage"], row["failures"]) == (10, 9, 0.9, {"no_answer": 1})
        [number] = [each for each in row["numbers"] if each["metric"] == "exact"]
        profile = load_profile(name)[0]
        value = 0.5 if profile.mode == "single" else 1.0  # level candidates count half; one order was asked for
        assert (number["n"], number["judged"], number["value"]) == (10, 9, value)
        score, (low, high) = next(check.score for check in profile.check if check.score), profile.range
        assert row["usage"]["calls"] >= 10
        lines = [json.loads(line) for line in (run / "results.jsonl").read_text("utf-8").splitlines()]
        mine = [line for line in lines if line["contender"] == row["key"]]
        rewards = [scores["reward"] for line in mine for scores in (line.get("scores") or {}).values()]
        if profile.mode == "single":
            assert rewards == pytest.approx([(score - low) / (high - low)] * 18)
        [failed] = [line for line in mine if line.get("failure")]
        assert failed["item"].endswith(f"p{BROKEN}") and failed.get("preference") is None and not failed.get("scores")
    assert "one order" in result["rows"][-1]["protocol"]
    assert len(result["between"]) == 6
    assert all((test["n"], test["judged_by_both"]) == (10, 9) for test in result["between"])
    assert [test["p"] for test in result["between"]] == [None, None, 0.5**8, None, 0.5**8, 0.5**8]
    used = result["rows"][0]["usage"]["input_tokens"]
    text = (run / "report.md").read_text(encoding="utf-8")
    assert used and f"| {used / 10:,.2f} |" in text, "money per 1,000 of the 10 judgments"
    assert "Judges compared" in text and all(f"(profile:{name}" in text for name in PROFILES)


def test_the_gain_of_a_library_is_measured_per_judge_and_goes_into_its_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RH_HOME", str(tmp_path / "home"))
    data, folder, run = ten_pairs(tmp_path / "pairs"), tmp_path / "library", tmp_path / "run"
    library = EMPTY.apply(AddEntry(Entry("boxes", "skill", "For boxes.", "Fill the box.", {"triggers": "always"})))
    library.save(folder)

    def answer(call: Call, reads: bool) -> str:
        """One judge needs the Library on odd pairs; the other never does, and fails on a pair with it."""
        guided, number = "Fill the box." in call.text, int(call.text.partition("number ")[2].partition(".")[0] or 0)
        if guided and not reads and number == BROKEN:
            return "I'm sorry, but I can't assist with that request."
        return PREFERS_A if guided or not reads or number % 2 == 0 else PREFERS_A.replace('"A"', '"B"', 1)

    first = ModelServer(lambda call: answer(call, True), model="one")
    second = ModelServer(lambda call: answer(call, False), model="two")
    with first, second:
        judges = f"vllm:one@{first.url},vllm:two@{second.url},closer"
        words = ["benchmark", str(data), "--judges", judges, "--protocol", "direct", "--one-order", "--library"]
        words += [str(folder), "--transfer", "--for-library", str(folder), "--run", str(run), "--yes", "--quiet"]
        assert main([*words, "--json"]) == 0, capsys.readouterr().err
    result = parse_result(json.loads(capsys.readouterr().out))
    assert [(row.role, row.name) for row in result.rows] == [
        ("judge", "vllm:one"),
        ("empty", "vllm:one"),
        ("baseline", "vllm:two"),
        ("empty", "vllm:two"),
        ("baseline", "closer (baseline)"),
    ]
    one, two = result.gains
    assert (one.gain, one.better, one.worse, one.n, one.judged_by_both) == (0.5, 5, 0, 10, 10)
    assert one.interval and one.interval[0] > 0 and one.p == pytest.approx(2 / 2**5)
    assert (two.gain, two.judged_by_both, two.judged_by_first_only, two.p) == (0.0, 9, 1, None)
    assert "Gain of the Library" in (run / "report.md").read_text("utf-8")
    facts = known_facts(read_config(folder / "benchmark.json"), library)
    assert [(row.judge, row.gain and row.gain.value) for row in facts] == [("vllm:one", 0.5), ("vllm:two", 0.0)]
    subject = CardSubject(library, "me/mine", "0.1.0", facts=facts)
    assert read_config(make_config(subject)).facts == facts, "what a push keeps"
    block = read_card(make_card(subject)).blocks["results"]
    assert "### Gain by judge" in block and "| +50.0 (+" in block and "| 9 of 10 |" in block
    damaged = make_config(subject).replace('"better": 5', '"better": 11')
    assert len(read_config(damaged).facts) == 1
    assert main(["benchmark", "demo", "--transfer", "--no-baseline"]) == 2
    assert "Leave out one of them." in capsys.readouterr().err


def test_rows_are_tested_against_each_other_and_say_how_often_they_agree(tmp_path: Path) -> None:
    data = made("editscore-bench", tmp_path, protocol="pairs")
    rows = [pixels(), pixels("baseline", upside_down=True), pixels("baseline", fails=[next(iter(data.items))])]
    result = job(data, rows, tmp_path / "run").run().result
    tests = {(test.first.name, test.second.name): test for test in result.between}
    names = [row.label for row in result.rows]
    flipped, failing, other = (tests[names[i], names[j]] for i, j in ((0, 1), (0, 2), (1, 2)))
    assert (flipped.judged_by_both, flipped.same, flipped.better, flipped.worse) == (24, 0, 0, 24)
    assert flipped.gain == -1.0 and flipped.p == pytest.approx(2 * 0.5**24)
    assert (failing.judged_by_both, failing.same, failing.judged_by_first_only, failing.p) == (23, 23, 1, None)
    assert other.gain == 1.0
    assert parse_result(to_json(result)) == result
    text = markdown(result)
    assert "| 0.0% |" in text and "| 100.0% |" in text and "not corrected for the number of comparisons (3)" in text


@pytest.mark.slow
def test_the_exploit_rate_stands_beside_the_accuracy(tmp_path: Path) -> None:
    make_attacks(tmp_path / "attacks", cases=1, side=256)
    task = replace(open_task(str(tmp_path / "attacks")), name="attacks", metrics=("exact", "exploits"))
    attacks = open_benchmark(task, settings(tmp_path))
    data = made("editscore-bench", tmp_path, protocol="pairs", n=6)
    rows = [pixels(), pixels("baseline", upside_down=True)]
    whole = replace(job(data, rows, tmp_path / "run"), attacks=attacks)
    assert whole.cost().judgments == 2 * (6 + len(attacks.items))
    first, second = whole.run().rows
    assert first.exploits.n == first.exploits.judged == len(attacks.items)
    assert first.exploits.value + second.exploits.value == pytest.approx(1.0), "each prefers what the other does not"
    assert "Exploit preferred" in markdown(read_result(tmp_path / "run"))
    assert read_result(tmp_path / "run" / "attacks").rows[0].exploits != first.exploits


def test_options_follow_a_judge_and_are_its_own() -> None:
    spec = "vllm:m@http://a/v1,http://b/v1"
    assert split_options(f"{spec}+samples=4+one-order") == (spec, {"one_order": "true", "samples": "4"})
    assert split_options("hf:org/name+x") == ("hf:org/name+x", {}) and split_options("file:a+b=c")[1] == {}
    config = BenchmarkConfig("demo", judges=(f"{spec}+samples=4", f"{spec}+evidence", "closer"), protocol="direct")
    first, second, third = (config.for_judge(each) for each in (config.judge, *config.baseline_judges))
    assert (first.judge, first.samples, first.evidence, first.protocol) == (spec, 4, None, "direct")
    assert (second.judge, second.samples, second.evidence, third.judge) == (spec, None, True, "closer")
    assert sent_to(config, vars(config)) == ["http://a/v1", "http://b/v1"]
    for wrong, message in (
        ("m+sample=4", "no option"),
        ("m+samples=x", "samples: expected"),
        ("m+samples=0", "at least 1"),
        ("m+router=x", "no option"),
    ):
        with pytest.raises(InputError, match=message):
            JudgeConfig(judge=wrong)


def test_a_file_of_judges_may_name_a_file_of_endpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("urls.txt").write_text("http://a/v1\nhttp://b/v1\n", encoding="utf-8")
    Path("judges.yaml").write_text("judges: [closer, {judge: 'vllm:m@urls.txt', one_order: true}]", encoding="utf-8")
    expected = BenchmarkConfig("demo", judge="closer", baselines=("vllm:m@http://a/v1,http://b/v1+one-order",))
    for option in ("--judges", "--config"):
        [config], _ = parse("benchmark", ["run", "demo", option, "judges.yaml"])[1:]
        assert config == expected


def test_a_file_of_judges_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "judges.yaml"
    for text, message in (
        ("judges: [{samples: 4}]", "names no judge"),
        ("judges: [{judge: closer, sample: 4}]", "no option of a judge"),
        ("others: [closer]", "names no judge"),
    ):
        file.write_text(text, encoding="utf-8")
        assert main(["benchmark", "demo", "--judges", str(file)]) == 2
        assert message in capsys.readouterr().err
