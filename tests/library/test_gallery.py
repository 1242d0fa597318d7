"""Libraries on the Hub by tag: what their cards claim, whatever they say."""

import pytest
from commands import Rh
from drawn_pairs import two_skills
from hub_parts import REPO, Hub

from rewardharness.library.card import Facts
from rewardharness.library.hub import HubError, PushOptions, push, search_libraries
from rewardharness.schema import Accuracy, Interval


def publish(hub: Hub, repo: str = REPO) -> None:
    """Publish a Library with a result and two attacks."""
    library = two_skills()
    about = (library.id, "measured (no VLM)", "measured", "people/edits", "human")
    result = Facts(*about, Accuracy(200, 198, 160.0), Interval(0.74, 0.86))
    attacks = [
        Facts(*about, Accuracy(24, 24, 24.0), Interval(0.86, 1.0), exploit_reward=reward, exploit_interval=None)
        for reward in (0.25, 0.4)
    ]
    push(library, repo, access=hub.user(repo.split("/")[0]), options=PushOptions(facts=(*attacks, result)))


def test_a_published_library_is_found_with_its_result_and_robustness(hub: Hub) -> None:
    publish(hub)
    hub.server.store.create("ann/something-else")
    [found] = search_libraries(access=hub.anonymous)
    assert (found.repo, found.spec, found.likes) == (REPO, f"{REPO}@v0.1.0", 3)
    assert found.result is not None and found.updated is not None
    assert (round(found.result.accuracy, 3), found.result.n, found.result.low) == (0.808, 198, 0.74)
    assert found.result.data == "people/edits" and found.exploit_reward == 0.4
    assert search_libraries("nothing", access=hub.anonymous) == ()
    assert search_libraries(author="bob", access=hub.anonymous) == ()
    hub.repo.private = True
    assert search_libraries(access=hub.anonymous) == search_libraries(access=hub.user("bob")) == ()
    assert [each.private for each in search_libraries(access=hub.user("ann"))] == [True]
    hub.server.die_at(1)
    with pytest.raises(HubError, match="unreachable"):
        search_libraries(access=hub.anonymous)


CARDS = {
    "no-results": "tags: [rh-library]",
    "odd": "tags: [rh-library]\nlicense: [1]\nrewardharness: 7\nmodel-index: 5",
    "odder": """tags: [rh-library]
rewardharness: {version: ../../etc}
model-index:
- name: x
  results:
  - task: {type: x}
    dataset: {type: x, name: x}
    metrics:
    - {type: accuracy, value: 7}
    - {type: accuracy, value: 0.5, args: {judged: many, low: 2, high: x}}""",
}


def test_a_card_can_claim_nothing_that_is_no_number(hub: Hub) -> None:
    for name, header in CARDS.items():
        hub.server.store.create(f"ann/{name}").put({"README.md": f"---\n{header}\n---\n"})
    found = {each.repo.split("/")[1]: each for each in search_libraries(access=hub.anonymous)}
    assert found.keys() == CARDS.keys() and {each.version for each in found.values()} == {""}
    assert found["no-results"].result is None is found["odd"].result and found["odd"].license == ""
    odder = found["odder"].result
    assert odder is not None and (odder.accuracy, odder.n, odder.low, odder.high) == (0.5, 0, None, None)


def test_the_command_lists_libraries(hub: Hub, rh: Rh) -> None:
    assert "No Library was found" in rh("library", "search").out
    publish(hub)
    said = rh("library", "search", "lib", "--sort", "likes").out
    assert f"{REPO}@v0.1.0" in said and "0.81 [0.74, 0.86], n 198" in said
    [row] = rh("library", "search", "--json").json["libraries"]
    assert row["repo"] == REPO and row["result"]["n"] == 198 and row["exploit_reward"] == 0.4
