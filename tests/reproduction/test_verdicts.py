import pytest

from reproduction.comparisons import Check, Compared
from reproduction.rows import Variant
from reproduction.verdicts import Claim, judge
from tests.reproduction.test_comparisons import measured


def test_verdicts():
    yes, no, blind = (Check("", "", held) for held in (True, False, None))
    cases = ([], [yes, yes], [yes, no], [no], [blind], [yes, blind], [no, blind])
    verdicts = [Claim("", "", some).verdict for some in cases]
    assert verdicts == [
        "not yet tested",
        "held",
        "partly held",
        "not held",
        "not to be seen",
        "partly held",
        "not held",
    ]


def test_most_is_more_than_half():
    yes, no, blind = (Check("", "", held) for held in (True, False, None))
    cases = ([yes, yes, no], [yes, no], [yes, no, no], [yes, blind], [yes], [blind], [])
    verdicts = [Claim("", "", some, most=True).verdict for some in cases]
    assert verdicts == [
        "held",
        "not held",
        "not held",
        "not held",
        "held",
        "not to be seen",
        "not yet tested",
    ]
    assert Claim("", "", cases[0], most=True).holding == 2


def above(at: Compared) -> list[Claim]:
    table = ("emnist/per-domain", "stackoverflow/per-domain")
    checks = at.accuracy(table, "fare-dust", "fedadam", "above")
    return [Claim("", "", checks + at.times(table, "fare-dust", "fedadam"))]


@pytest.mark.parametrize(
    "ends, last, verdicts, accuracies",
    [
        (80, 95, ("not held", "held"), (0, 2)),
        (95, 80, ("held", "not held"), (2, 2)),
    ],
)
def test_a_claim_is_judged_three_times(ends, last, verdicts, accuracies):
    """By ends of curves, by last evaluations, and by published tables."""
    table = "emnist/per-domain"
    rows = {f"{table}/fedadam": measured(90, 90), f"{table}/fare-dust": measured(ends, ends)}
    row = rows[f"{table}/fare-dust"]
    rows[f"{table}/fare-dust"] = row._replace(
        straggler=row.straggler._replace(median=last), total=row.total._replace(median=last)
    )

    def numbers(variant: Variant):
        return None if variant.sets else rows.get(variant.preset)

    def accuracy(at: Compared) -> list[Claim]:
        return [Claim("", "", at.accuracy([table], "fare-dust", "fedadam", "above"))]

    (claim,) = judge(accuracy, numbers, {})
    assert claim.verdicts == (*verdicts, "held")  # 91.7 / 87.0 against 79.8 / 85.4
    assert claim.accuracies == accuracies and claim.times == (0, 0) and claim.shared == 2
    assert not claim.of_time
    what, *cells = claim.rows[0]
    assert what == "EMNIST, per-domain, straggler: FARe-DUST, FedAdam"
    assert [cell[2:] for cell in cells] == [f"{ends}.0, 90.0", f"{last}.0, 90.0", "91.7, 79.8"]


def test_stackoverflow_has_times_of_plans_and_accuracies_of_the_paper_alone():
    (claim,) = judge(above, lambda variant: None, {})
    ours = {what: cells for what, *cells in claim.rows}
    accuracy = ours["StackOverflow, per-domain, straggler: FARe-DUST, FedAdam"]
    assert accuracy == ["", "", "✗ 25.1, 25.6"]
    end, last, paper = ours["StackOverflow, per-domain, time [s]: FARe-DUST, FedAdam"]
    assert end == last and end.startswith("✓ 410,808") and paper.startswith("✓ 408,276")
    assert claim.accuracies == (0, 0) and claim.times == (1, 1)  # EMNIST is not trained
    assert [claim.said(way) for way in range(3)] == ["held, 1 of 1"] * 2 + ["partly held, 4 of 6"]
