#!/usr/bin/env python3
"""The numbers that `tests/reference.rs` compares the statistical methods with, from SciPy, lifelines and statsmodels,
and from plain definitions where those have none. Shares no code with the project.

    statistics.py            write statistics.json beside this script
    statistics.py --check    recompute, and compare with the committed file

Needs scipy, lifelines and statsmodels (written with scipy 1.17.1, lifelines 0.30.3, statsmodels 0.15.0, numpy 2.4.6).
"""

import itertools
import json
import math
import pathlib
import sys
import warnings

sys.path.pop(0)  # this folder, so that a library that imports Python's own `statistics` does not get this file

import numpy as np
from lifelines import KaplanMeierFitter
from lifelines.statistics import logrank_test
from lifelines.utils import restricted_mean_survival_time
from scipy import stats
from statsmodels.stats.multitest import multipletests

warnings.simplefilter("ignore")
DRAWS = 400_000


def generator(name):
    """A generator of its own for every case, so that a new case changes no other."""
    return np.random.default_rng(list(name.encode()))


def arrivals(name, count, scale, budget, grid=1.0):
    """Exponential times on a grid, so that some tie; later than the budget is censored at it."""
    times = np.ceil(generator(name).exponential(scale, count) / grid) * grid
    return [[float(min(time, budget)), bool(time <= budget)] for time in times]


# Curves


def columns(group):
    return np.array([time for time, _ in group]), np.array([arrived for _, arrived in group], dtype=bool)


def restricted_mean(group, horizon):
    times, arrived = columns(group)
    fitter = KaplanMeierFitter().fit(times, arrived)
    return float(restricted_mean_survival_time(fitter, t=horizon))


def weighted_restricted_mean(group, horizon, weights):
    times, arrived = columns(group)
    area, survival, left = 0.0, 1.0, 0.0
    for time in [time for time in np.unique(times[arrived]) if time < horizon]:
        area += survival * (time - left)
        now = arrived & (times == time)
        # Nobody left is exactly 0, whatever the rounding of the weights.
        last = now.sum() == (times >= time).sum()
        survival *= 0.0 if last else 1 - weights[now].sum() / weights[times >= time].sum()
        left = time
    return area + survival * (horizon - left)


def restricted_mean_error(group, horizon):
    """Greenwood's variance weighted with the squared area behind each arrival, from the definition; the squared change
    of the mean with the weight of every trial has to sum to the same (the infinitesimal jackknife)."""
    times, arrived = columns(group)
    assert abs(weighted_restricted_mean(group, horizon, np.ones(len(group))) - restricted_mean(group, horizon)) < 1e-9
    curve = KaplanMeierFitter().fit(times, arrived).survival_function_.iloc[:, 0]
    events = [time for time in np.unique(times[arrived]) if time < horizon]
    variance = 0.0
    for event in events:
        knots = [event] + [t for t in np.unique(times) if event < t < horizon] + [horizon]
        area = sum(curve[left] * (right - left) for left, right in zip(knots, knots[1:]))
        at_risk, count = int((times >= event).sum()), int((arrived & (times == event)).sum())
        if area > 1e-12:
            variance += area**2 * count / (at_risk * (at_risk - count))
    jackknife = 0.0
    for trial in range(len(group)):
        change = []
        for step in (-1e-4, 1e-4):
            weights = np.ones(len(group))
            weights[trial] += step
            change.append(weighted_restricted_mean(group, horizon, weights))
        jackknife += ((change[1] - change[0]) / 2e-4) ** 2
    assert abs(jackknife - variance) <= 1e-6 * max(1.0, variance), (jackknife, variance)
    return math.sqrt(variance)


def curve(name, group, horizon):
    times, arrived = columns(group)
    fitter = KaplanMeierFitter(alpha=0.05).fit(times, arrived)
    table = fitter.event_table
    steps = []
    for time, row in table.iterrows():
        if row["removed"] == 0:
            continue  # the entrance at time 0
        survival = float(fitter.survival_function_.loc[time].iloc[0])
        low, high = (float(end) for end in fitter.confidence_interval_.loc[time])
        counts = [int(row[column]) for column in ("at_risk", "observed", "censored")]
        steps.append([float(time), *counts, survival, low, high])
    return {"name": name, "group": group, "steps": steps, "horizon": horizon,
            "restricted_mean": restricted_mean(group, horizon),
            "standard_error": restricted_mean_error(group, horizon)}


def curves():
    return [
        curve("one arrival", [[4.0, True]], 4.0),
        curve("one censored", [[4.0, False]], 4.0),
        curve("three", [[2.0, True], [5.0, True], [3.0, True]], 5.0),
        curve("all censored", [[5.0, False], [7.0, False], [7.0, False], [3.0, False]], 7.0),
        curve("event first", [[2.0, False], [2.0, True], [5.0, True], [5.0, False], [6.0, True]], 5.5),
        curve("all at once", [[3.0, True]] * 4, 3.0),
        curve("half", [[float(t), True] for t in range(1, 11)], 8.0),
        curve("ten with ties", arrivals("ten", 10, 8, 25), 20.0),
        curve("thirty", arrivals("thirty", 30, 12, 30, 0.5), 30.0),
        curve("heavily censored", arrivals("heavy", 30, 60, 15), 15.0),
        curve("last one censored", arrivals("last", 12, 5, 100) + [[200.0, False]], 150.0),
    ]


# The log-rank test


def excess(members, pool):
    """Observed less expected arrivals of groups, one for each row of `members`, from the definition."""
    times, arrived = columns(pool)
    members = members.astype(float)
    total = np.zeros(len(members))
    for time in np.unique(times[arrived]):
        under_way, now = times >= time, arrived & (times == time)
        total += members @ now - now.sum() * (members @ under_way) / under_way.sum()
    return total


def share(values, observed):
    return float((np.abs(values) >= abs(observed) - 1e-9).mean())


def permuted(name, first, second):
    pool, count = first + second, len(first)
    observed = excess(np.array([[True] * count + [False] * len(second)]), pool)[0]
    arrangements = math.comb(len(pool), count)
    if arrangements <= 1_000_000:
        chosen = np.array(list(itertools.combinations(range(len(pool)), count)))
        members = np.zeros((len(chosen), len(pool)), dtype=bool)
        np.put_along_axis(members, chosen, True, axis=1)
        return share(excess(members, pool), observed), arrangements, None
    members = generator(name).permuted(np.tile(np.arange(len(pool)) < count, (DRAWS, 1)), axis=1)
    return share(excess(members, pool), observed), arrangements, DRAWS


def log_rank(name, first, second):
    (times, arrived), (others, others_arrived) = columns(first), columns(second)
    case = {"name": name, "first": first, "second": second, "chi_squared": None}
    if arrived.any() or others_arrived.any():
        censored = [stats.CensoredData(uncensored=t[a], right=t[~a]) for t, a in (columns(first), columns(second))]
        found = stats.logrank(*censored)
        other = logrank_test(times, others, arrived, others_arrived)
        if math.isfinite(found.statistic):
            assert abs(found.statistic**2 - other.test_statistic) < 1e-9
            case["chi_squared"] = float(found.statistic**2)
    case["permuted"], case["permuted_arrangements"], case["permuted_draws"] = permuted(name, first, second)
    return case


def log_ranks():
    ten = arrivals("ten", 10, 8, 25)
    correlated = [[min(time * 2 + 1, 25.0), arrived and time * 2 + 1 <= 25] for time, arrived in ten]
    return [
        log_rank("one each", [[1.0, True]], [[2.0, True]]),
        log_rank("one each at once", [[1.0, True]], [[1.0, True]]),
        log_rank("one each, censored first", [[1.0, False]], [[2.0, True]]),
        log_rank("one each, censored at an arrival", [[2.0, False]], [[2.0, True]]),
        log_rank("all censored", [[5.0, False]] * 3, [[4.0, False]] * 4),
        log_rank("three apart", [[1.0, True], [2.0, True], [3.0, True]], [[4.0, True], [5.0, True], [6.0, False]]),
        log_rank("five", arrivals("first five", 5, 5, 20), arrivals("second five", 5, 15, 20)),
        log_rank("equal", ten, ten),
        log_rank("ten", ten, arrivals("other ten", 10, 14, 25)),
        log_rank("ten, each slower than its pair", ten, correlated),
        log_rank("four against nine", arrivals("four", 4, 6, 30), arrivals("nine", 9, 12, 30)),
        log_rank("nine against four", arrivals("nine", 9, 12, 30), arrivals("four", 4, 6, 30)),
        log_rank("eleven", arrivals("eleven", 11, 9, 30), arrivals("other eleven", 11, 16, 30)),
        log_rank("twenty", arrivals("twenty", 20, 10, 30), arrivals("other twenty", 20, 15, 30)),
        log_rank("thirty, heavily censored", arrivals("heavy", 30, 60, 15), arrivals("other heavy", 30, 30, 15)),
    ]


# Paired values


def difference(name, values):
    values = np.array(values, dtype=float)
    upper = np.triu_indices(len(values))
    walsh = np.median((values[upper[0]] + values[upper[1]]) / 2)
    return {"name": name, "values": values.tolist(), "mean": float(values.mean()), "median": float(np.median(values)),
            "hodges_lehmann": float(walsh)}


def differences():
    def normal(name, count, shift, digits=None):
        values = generator(name).normal(shift, 1, count)
        return (values if digits is None else values.round(digits)).tolist()

    return [
        difference("one", [0.5]),
        difference("only zeros", [0.0, 0.0, 0.0]),
        difference("three of a sign", [1.0, 2.0, 3.0]),
        difference("three with a zero", [1.0, 0.0, -3.0]),
        difference("five", normal("five", 5, 0.5)),
        difference("balanced", [1.0, -1.0, 2.0, -2.0]),
        difference("ten", normal("ten", 10, 0.7)),
        difference("ten with ties and zeros", [0.5, 0.5, -0.5, 1.0, 0.0, 1.0, 2.0, -1.0, 0.0, 3.0]),
        difference("twelve tied in pairs", [1.0, -1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, -5.0, 5.0, 6.0, 6.0]),
        difference("thirty", normal("thirty", 30, 0.4)),
        difference("fifty", normal("fifty", 50, 0.3)),
        difference("sixty", normal("sixty", 60, 0.2)),
        difference("sixty-five with ties and zeros", normal("sixty-five", 65, 0.2, 1)),
    ]


# Intervals


def normals():
    points = [-37.0, -12.5, -8.0, -3.0, -1.96, -1.0, -0.3, 0.0, 1e-9, 0.7, 1.4, 2.5, 2.8284, 2.83, 4.0, 8.0]
    shares = [1e-300, 1e-100, 1e-20, 1e-8, 1e-4, 0.025, 0.1, 0.3, 0.49, 0.51, 0.7, 0.975, 0.9999, 1 - 1e-8, 1 - 1e-15]
    cdf = [[x, float(stats.norm.cdf(x)), float(2 * stats.norm.sf(abs(x)))] for x in points]
    return {"cdf": cdf, "quantile": [[p, float(stats.norm.ppf(p))] for p in shares]}


def holms():
    sets = [[0.01, 0.04, 0.03, 0.005], [0.5, 0.9, 0.2], [0.02, 0.02, 0.02], [1.0, 0.0], [0.7],
            generator("holm").beta(0.3, 2, 12).tolist()]
    return [{"raw": raw, "adjusted": multipletests(raw, method="holm")[1].tolist()} for raw in sets]


def quantiles():
    samples = [[3.0], [1.0, 2.0], [5.0, -1.0, 2.5], generator("quantiles").normal(0, 1, 10).tolist(),
               [2.0, 2.0, 2.0, 1.0, 9.0]]
    shares = [0.0, 0.025, 0.25, 0.5, 0.6, 0.975, 1.0]
    return [{"values": v, "quantiles": [[q, float(np.quantile(v, q))] for q in shares]} for v in samples]


def areas():
    curves = [[[0.0, 1.0], [1.0, 2.0], [4.0, 3.0]], [[2.0, 0.5]], [[1.0, 0.1], [2.0, 0.4], [3.0, 0.9], [10.0, 0.95]]]
    return [{"points": c, "area": float(np.trapezoid([y for _, y in c], [x for x, _ in c]))} for c in curves]


def written(content):
    """JSON with one case a line, so that a change of one shows as one."""
    parts = []
    for key, value in content.items():
        if isinstance(value, list):
            text = "[\n" + ",\n".join("    " + json.dumps(case, allow_nan=False) for case in value) + "\n  ]"
        else:
            text = json.dumps(value, allow_nan=False)
        parts.append(f"  {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def close(found, stored):
    if isinstance(stored, dict):
        return found.keys() == stored.keys() and all(close(found[key], stored[key]) for key in stored)
    if isinstance(stored, list):
        return len(found) == len(stored) and all(map(close, found, stored))
    if isinstance(stored, float):
        return math.isclose(found, stored, rel_tol=1e-9, abs_tol=1e-12)
    return found == stored


def main():
    content = {"normal": normals(), "curves": curves(), "log_rank": log_ranks(), "differences": differences(),
               "holm": holms(), "quantiles": quantiles(), "areas": areas()}
    file = pathlib.Path(__file__).with_suffix(".json")
    if sys.argv[1:] == ["--check"]:
        stored = json.loads(file.read_text())
        differing = [key for key in content if not close(content[key], stored[key])]
        sys.exit(f"differ: {', '.join(differing)}" if differing else 0)
    file.write_text(written(content))


if __name__ == "__main__":
    main()
