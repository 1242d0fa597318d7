"""Measures of the form of text responses: what a prompt asks for in its own words, and general flaws."""

import time

import pytest

from rewardharness.measure.responses import requested_language
from rewardharness.measure.table import MEASURES, known_measures
from rewardharness.schema import EditRequest

TWO = "It rains. We stay."
GERMAN = "Der Hund ist nicht hier und die Katze schläft auf dem Sofa."
ENGLISH = "The dog is not here and the cat is asleep on the sofa in the hall."


def grade(name: str, prompt: str, text: str) -> float | None:
    return MEASURES[name].function(text, EditRequest(prompt, ("other",), "none")).grade


@pytest.mark.parametrize(
    ("name", "prompt", "kept", "broken"),
    [
        ("requested_length", "Say it in exactly two sentences.", TWO, f"{TWO} {TWO}"),
        ("requested_length", "One or two sentences.", TWO, f"{TWO} {TWO}"),
        ("requested_length", "Summarize these three paragraphs in at most five words.", "It rains.", TWO + " Why not?"),
        ("requested_length", "Write between 3 and 5 words.", "Rain all day", "Rain"),
        ("requested_length", "Give me ten words or more.", "one two three " * 4, TWO),
        ("requested_length", "Write a 4-word title.", "Rain in the hills", "Rain"),
        ("requested_length", "About 10 words, please.", "one two three " * 3, "one two three " * 6),
        ("requested_length", "List three items.", "- a\n- b\n- c", "- a\n- b"),
        ("requested_format", "Answer with bullet points.", "Here:\n- a\n- b", "a and b"),
        ("requested_format", "Do not use bullet points.", "a and b", "- a\n- b"),
        ("requested_format", "Write a numbered list.", "1. a\n2. b", "- a\n- b"),
        ("valid_json", 'Return JSON with the keys "a" and "b".', '{"a": 1, "b": 2}', '{"a": 1}'),
        ("valid_json", "Answer as a JSON list.", "[1, 2]", "[1, 2"),
        ("valid_json", "Answer in JSON.", '{"a": 1}', f"{'[' * 5000}"),
        ("required_words", 'Use the words "rain" and "wind".', "Rain and wind.", "Rain and sun."),
        ("required_words", "End with “Good night.”", "It is late. Good night.", "Good night. It is late."),
        ("forbidden_words", 'Do not use the word "rain".', "It is wet.", "Rain falls."),
        ("forbidden_words", "Avoid the letter 'e'.", "Rain falls.", "We stay."),
        ("requested_language", "Answer in German.", GERMAN, ENGLISH),
        ("requested_language", "Translate it into Japanese.", "雨が降っています。", ENGLISH),
        ("repetition", "Write.", ENGLISH, " ".join([ENGLISH] * 3)),
        ("complete_ending", "Write.", ENGLISH, ENGLISH[:-9]),
    ],
)
def test_a_response_that_keeps_what_is_asked_for_has_the_better_grade(name, prompt, kept, broken):
    better, worse = grade(name, prompt, kept), grade(name, prompt, broken)
    assert better is not None and worse is not None
    assert better >= 0.9 and worse <= 0.6


@pytest.mark.parametrize("name", [name for name in known_measures("text") if MEASURES[name].dimension == "instruction"])
@pytest.mark.parametrize(
    "prompt",
    [
        "Describe the weather.",
        "The first two sentences of the story are missing. What do they say?",
        'Who said "in at most five words, as JSON, in German"?',
        "Each of the three lines has a name.",
    ],
)
def test_what_is_not_asked_for_gets_no_grade(name, prompt):
    assert grade(name, prompt, ENGLISH) is None


def test_a_language_that_cannot_be_told_gets_no_grade():
    assert requested_language("Hallo", EditRequest("Answer in German.", ("other",), "none")).grade is None


@pytest.mark.parametrize("text", ["." * 99_999 + "a", "\n " * 50_000, "```" * 33_000, "[" * 100_000])
def test_a_hostile_text_takes_no_longer_than_others(text):
    prompt = "Answer as JSON in German with one sentence, with bullets, " + 'use "a", ' * 300
    start = time.process_time()
    assert all(0 <= (grade(name, prompt, text) or 0) <= 1 for name in known_measures("text"))
    assert time.process_time() - start < 1
