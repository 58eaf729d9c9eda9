#!/usr/bin/env python3
"""An independent implementation of tasks that ask at tokens, from their definitions: MQAR, Markov chains with causal structure, Mess3 and
RRXOR. It shares no code with the project and needs only Python 3.

    sequences.py PROGRAM [N]   compare answers, distributions of the generators, and best losses, on N sequences of every task
"""

import itertools
import json
import math
import random
import subprocess
import sys
from collections import Counter


def run(program, *arguments, text=None):
    done = subprocess.run([program, *arguments], input=text, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def generate(program, task, count, *options):
    """Examples of a task: tokens without padding, and a list of (position, answer); an answer is a class or a distribution."""
    lines = run(program, "data", "generate", task, "-n", str(count), "--json", *options).splitlines()
    for example in map(json.loads, lines):
        tokens = example["tokens"][:len(example["text"].split())]
        rows = example.get("distributions", [])
        yield tokens, [(asked["at"], asked["class"] if "class" in asked else rows[asked["distribution"]])
                       for asked in example["questions"]]


def predictions(program, task, sequences):
    """What the program says about sequences that this script made up."""
    text = "".join(" ".join(map(str, tokens)) + "\n" for tokens in sequences)
    for line in run(program, "data", "label", task, "--json", text=text).splitlines():
        answer = json.loads(line)
        yield [(asked["at"], answer["distributions"][asked["distribution"]]) for asked in answer["questions"]]


def fits(what, counts, shares):
    """Chi-squared of counts against shares is below its 99.99 % point (Wilson and Hilferty's approximation)."""
    kept = [(counts.get(key, 0), share) for key, share in shares.items() if share > 0]
    total, mass = sum(counts.values()), sum(shares.values())
    assert total == sum(count for count, _ in kept), f"{what}: something happened that cannot happen"
    # Rare outcomes count together.
    rare = [pair for pair in kept if pair[1] / mass * total < 5]
    bins = [pair for pair in kept if pair not in rare]
    if rare:
        bins.append(tuple(map(sum, zip(*rare))))
    chi2 = sum((count - share / mass * total) ** 2 / (share / mass * total) for count, share in bins)
    freedom = len(bins) - 1
    spread = 2 / (9 * freedom)
    limit = freedom * (1 - spread + 3.719 * math.sqrt(spread)) ** 3
    assert chi2 < limit, f"{what}: chi-squared {chi2:.1f} exceeds {limit:.1f}"


def close(found, expected, tolerance=1e-6):
    return len(found) == len(expected) and all(abs(a - b) < tolerance for a, b in zip(found, expected))


# MQAR


def mqar_answers(tokens, pairs):
    """Questions of a sequence whose first tokens are so many pairs: a dictionary, as a person would use one."""
    table = dict(zip(tokens[0:2 * pairs:2], tokens[1:2 * pairs:2]))
    assert len(table) == len(set(table.values())) == pairs
    places = [at for at in range(2 * pairs, len(tokens)) if tokens[at] in table]
    assert sorted(tokens[at] for at in places) == sorted(table)
    return [(at, table[tokens[at]]) for at in places]


def check_mqar(program, count):
    for task, length, pairs, vocabulary, power, zero in (
            ("mqar", 64, 4, 8192, 0.01, True), ("mqar:pairs=8", 128, 8, 8192, 0.01, True),
            ("mqar:pairs=3,vocabulary=40,power=0.5", 21, 3, 40, 0.5, True),
            ("mqar:pairs=3,vocabulary=40,power=1,fillers=random", 30, 3, 40, 1.0, False)):
        first, second, keys, values = Counter(), Counter(), Counter(), Counter()
        for tokens, questions in generate(program, task, count, "--length", str(length), "--seed", "2"):
            assert len(tokens) == length and questions == mqar_answers(tokens, pairs), tokens
            assert all((at - 2 * pairs) % 2 == 0 for at, _ in questions)
            place = {tokens[at]: (at - 2 * pairs) // 2 for at, _ in questions}
            first[place[tokens[0]]] += 1
            second[place[tokens[2]]] += 1
            keys.update(tokens[0:2 * pairs:2])
            values.update(tokens[1:2 * pairs:2])
            rest = [token for at, token in enumerate(tokens[2 * pairs:]) if token not in tokens[0:2 * pairs:2]]
            assert not zero or set(rest) <= {0}
        places = (length - 2 * pairs) // 2
        weights = {place: (place + 1) ** (power - 1) for place in range(places)}
        total = sum(weights.values())
        shares = {place: weight / total for place, weight in weights.items()}
        fits(f"{task}: place of the first key", first, shares)
        fits(f"{task}: place of the second key", second, {
            place: sum(shares[other] * shares[place] / (1 - shares[other]) for other in shares if other != place)
            for place in shares})
        half = vocabulary // 2
        assert min(keys) >= 1 and max(keys) < half <= min(values) and max(values) < vocabulary
        for what, counts, low, high in (("keys", keys, 1, half), ("values", values, half, vocabulary)):
            eighth = lambda token: (token - low) * 8 // (high - low)
            found = Counter(map(eighth, counts.elements()))
            fits(f"{task}: {what}", found, Counter(map(eighth, range(low, high))))
    mixture = Counter()
    for tokens, questions in generate(program, "mqar:mix=zoology", count, "--seed", "3"):
        mixture[len(tokens), len(questions)] += 1
        assert questions == mqar_answers(tokens, len(questions))
    fits("the mixture of Zoology", mixture, {(64, 4): 5, (128, 8): 1, (256, 16): 1, (256, 32): 1, (256, 64): 1})
    print(f"mqar: {5 * count} sequences agree, and places, keys and values are distributed as defined")


# Markov chains


def parents(graph, node):
    if graph == "chain":
        return () if node == 0 else (node - 1,)
    if graph == "icl":
        return (node - 1,) if node % 2 else ()
    assert graph == "multi-parent"
    return () if node < 2 else ((node - 1) // 2, node - 1)


def counted(tokens, graph, states, alpha, end, asked):
    """The posterior mean of the row that holds after the tokens at `asked`, from the nodes before `end`."""
    counts = [alpha] * states
    for node in range(end):
        if parents(graph, node) and [tokens[p] for p in parents(graph, node)] == [tokens[p] for p in asked]:
            counts[tokens[node]] += 1
    return [count / sum(counts) for count in counts]


def check_markov(program, count):
    for task, graph, states, alpha, asks_all in (
            ("markov-chain:roots=uniform", "chain", 10, 0.1, False),
            ("markov-chain:3,graph=icl,alpha=1,roots=uniform", "icl", 3, 1.0, False),
            ("markov-chain:5,graph=multi-parent", "multi-parent", 5, 0.1, False),
            ("markov-chain:3,ask=all,roots=uniform", "chain", 3, 0.1, True),
            ("markov-chain:2,graph=multi-parent,ask=all", "multi-parent", 2, 0.1, True)):
        for tokens, questions in generate(program, task, min(count, 500), "--seed", "4"):
            length = len(tokens)
            assert length == (32 if graph == "multi-parent" else 20)
            assert [at for at, _ in questions] == (list(range(length)) if asks_all else [length - 1])
            for at, found in questions:
                if asks_all or graph == "multi-parent":
                    asked, end = parents(graph, at + 1), at + 1
                else:
                    asked, end = (length - 1,), length - 1
                mine = counted(tokens, graph, states, alpha, end, asked) if asked else [1 / states] * states
                assert close(found, mine), (task, tokens, at, found, mine)
    # Probabilities that are drawn anew for every sequence make an urn: each token drawn is put back with a copy.
    for alpha, task in ((0.1, "markov-chain:3,ask=all,roots=uniform"), (2.0, "markov-chain:3,ask=all,roots=uniform,alpha=2")):
        shares = {}
        for tokens in itertools.product(range(3), repeat=4):
            shares[tokens] = 1 / 3
            for node in range(1, 4):
                shares[tokens] *= counted(tokens, "chain", 3, alpha, node, (node - 1,))[tokens[node]]
        drawn = Counter(tuple(tokens) for tokens, _ in generate(program, task, 5 * count, "--length", "4", "--seed", "5"))
        fits(f"{task}: first four tokens", drawn, shares)
    # Roots from the stationary distribution: how often the first two tokens are equal, by simulation.
    rng = random.Random(6)
    equal = 0.0
    for _ in range(count):
        rows = [[rng.gammavariate(0.5, 1) for _ in range(3)] for _ in range(3)]
        rows = [[share / sum(row) for share in row] for row in rows]
        now = [1 / 3] * 3
        for _ in range(400):
            # Halfway between staying and moving, which has the same stationary distribution and no period.
            now = [now[to] / 2 + sum(now[s] * rows[s][to] for s in range(3)) / 2 for to in range(3)]
        equal += sum(now[s] * rows[s][s] for s in range(3)) / count
    stationary = list(generate(program, "markov-chain:3,alpha=0.5,ask=all", 4 * count, "--length", "4", "--seed", "7"))
    for place in (0, 2):
        found = sum(tokens[place] == tokens[place + 1] for tokens, _ in stationary) / len(stationary)
        assert abs(found - equal) < 5 * math.sqrt(0.3 / count), (found, equal)
    print(f"markov-chain: predictions and the distribution of first tokens agree; neighbours are equal with probability {equal:.3f}")


# Hidden Markov processes


def mess3(x, a):
    """Matrices by token: probability of emitting it and going from a state to another."""
    y, b = 1 - 2 * x, (1 - a) / 2
    return [[[(a if token == to else b) * (y if start == to else x) for to in range(3)] for start in range(3)]
            for token in range(3)], [1 / 3] * 3


def rrxor():
    names = ["S", "0", "1", "T", "F"]
    edges = {("S", 0): "0", ("S", 1): "1", ("0", 0): "F", ("0", 1): "T", ("1", 0): "T", ("1", 1): "F", ("T", 1): "S", ("F", 0): "S"}
    matrices = [[[0.0] * 5 for _ in range(5)] for _ in range(2)]
    for (start, token), to in edges.items():
        share = 1.0 if start in "TF" else 0.5
        matrices[token][names.index(start)][names.index(to)] = share
    return matrices, [2 / 6, 1 / 6, 1 / 6, 1 / 6, 1 / 6]


def after(matrix, weights):
    return [sum(weights[s] * matrix[s][to] for s in range(len(weights))) for to in range(len(weights))]


def every_sequence(process, length):
    """All possible sequences with their probabilities and the distribution of what comes next."""
    matrices, start = process
    found = {(): start}
    for step in range(length + 1):
        if step > 0:
            longer = {}
            for tokens, weights in found.items():
                for token, matrix in enumerate(matrices):
                    next_weights = after(matrix, weights)
                    if sum(next_weights) > 0:
                        longer[tokens + (token,)] = next_weights
            found = longer
        yield {tokens: (sum(weights), [sum(after(matrix, weights)) / sum(weights) for matrix in matrices])
               for tokens, weights in found.items()}


def entropy(shares):
    return -sum(share * math.log(share) for share in shares if share > 0)


BEST_LOSSES = {
    "mess3:x=0.15,a=0.6": (mess3(0.15, 0.6), [1.098612, 1.091068, 1.089391, 1.089004, 1.088915, 1.088894, 1.088890, 1.088889]),
    "mess3": (mess3(0.05, 0.85), [1.098612, 0.857719, 0.813356, 0.798118, 0.794740, 0.793783, 0.793543, 0.793480]),
    "rrxor": (rrxor(), [0.693147, 0.693147, 0.636514, 0.628487, 0.598679, 0.577623, 0.561458, 0.539847, 0.526940, 0.515819]),
}


def check_processes(program, count):
    for task, (process, losses) in BEST_LOSSES.items():
        every = list(every_sequence(process, len(losses) - 1))
        mine = [sum(share * entropy(row) for share, row in sequences.values()) for sequences in every]
        assert close(mine, losses), (task, mine)
        # The program's own predictions on all sequences have these losses from the second token on.
        longest = sorted(every[-1])
        theirs = [0.0] * (len(losses) - 1)
        for tokens, rows in zip(longest, predictions(program, task, longest)):
            assert [at for at, _ in rows] == list(range(len(tokens)))
            for at, row in rows:
                assert close(row, every[at + 1][tokens[:at + 1]][1]), (task, tokens, at, row)
                theirs[at] += every[-1][tokens][0] * entropy(row)
        assert close(theirs, losses[1:], 2e-6), (task, theirs)
        # What is drawn: tokens, and the next one in train.
        drawn = Counter(tuple(tokens) for tokens, _ in generate(program, task, 3 * count, "--length", "5", "--seed", "8"))
        fits(f"{task}: first five tokens", drawn, {tokens: share for tokens, (share, _) in every[5].items()})
        hits = spread = 0.0
        for tokens, questions in generate(program, task, count, "--split", "train", "--seed", "9"):
            assert [token for _, token in questions[:-1]] == tokens[1:], "the next token is asked for"
            weights = process[1]
            for token in tokens:
                weights = after(process[0][token], weights)
            expected = sum(after(process[0][0], weights)) / sum(weights)
            hits += (questions[-1][1] == 0) - expected
            spread += expected * (1 - expected)
        assert abs(hits) < 4 * math.sqrt(spread) + 1e-6, f"{task}: the token after the last is off by {hits}"
    made_up = [[8, 3, 0, 5, 7], [1, 1, 2, 6, 4]]
    for tokens, rows in zip(made_up, predictions(program, "mess3:factors=2", made_up)):
        low, high = predictions(program, "mess3", [[token % 3 for token in tokens], [token // 3 for token in tokens]])
        for (_, row), (_, first), (_, second) in zip(rows, low, high):
            assert close(row, [first[token % 3] * second[token // 3] for token in range(9)])
    print("mess3, rrxor: predictions and best losses agree with enumerations, and generators with their definitions")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    sizes = int(sys.argv[2]) if len(sys.argv) == 3 else 3000
    check_mqar(sys.argv[1], sizes)
    check_markov(sys.argv[1], sizes)
    check_processes(sys.argv[1], sizes)
