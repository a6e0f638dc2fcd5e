"""The paper's claims, in our words, as checks of numbers.

`where` is one of its five summary observations, its results, its discussion (the appendix on
additional observations) or its conclusion. A claim is tested in all tables that it speaks of,
StackOverflow's as well, of which we have times from plans alone.
"""

from reproduction.algorithm_claims import fare_dust, feast, fedbuff
from reproduction.comparisons import Compared, Numbers
from reproduction.rows import Found
from reproduction.technique_claims import dials, over_selection, stackoverflow, time_limit
from reproduction.verdicts import Claim, Judged, judge

SUBJECTS = fare_dust, feast, fedbuff, over_selection, time_limit, dials, stackoverflow


def claims(at: Compared) -> list[Claim]:
    return [claim for subject in SUBJECTS for claim in subject(at)]


def judged(numbers: Numbers, there: Found) -> list[Judged]:
    return judge(claims, numbers, there)
