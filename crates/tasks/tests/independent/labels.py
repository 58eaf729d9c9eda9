#!/usr/bin/env python3
"""An independent implementation of the tasks, which shares no code with the project: Python's own `eval` for arithmetic, a
plain stack for ListOps, the definitions of the other tasks as they are written. Needs only Python 3.

    labels.py check PROGRAM [N]   compare `PROGRAM data label` with this script on N sequences of every task, both those
                                  that the program generates and those that this script makes up
    labels.py fixture             print the fixture that the Rust tests read
"""

import random
import re
import statistics
import subprocess
import sys

MODULAR = "01234+-*()"
EQUATION = "01234+-()x="
FLIP_FLOP = "01WIR?"
LISTOPS = [str(d) for d in range(10)] + ["[MIN", "[MAX", "[MED", "[SM", "]"]
PAD = {"listops": 15, "parity": 2, "even-pairs": 2, "missing-duplicate": 3, "cycle-navigation": 3,
       "stack-manipulation": 5, "modular-arithmetic": 10, "solve-equation": 11, "flip-flop": 6}
SHORTEST = {"flip-flop": 4}  # tokens; the others can have 3


def listops_value(symbols):
    stack = []
    for symbol in symbols:
        if symbol != "]":
            stack.append(symbol)
            continue
        arguments = []
        while not str(stack[-1]).startswith("["):
            arguments.append(int(stack.pop()))
        rule = {"[MIN": min, "[MAX": max, "[MED": lambda a: int(statistics.median(a)), "[SM": lambda a: sum(a) % 10}
        stack.append(rule[stack.pop()](arguments))
    assert len(stack) == 1
    return int(stack[0])


def label(task, ids):
    while ids[-1] == PAD[task]:
        ids = ids[:-1]
    if task == "listops":
        return listops_value([LISTOPS[i] for i in ids])
    if task == "parity":
        return sum(ids) % 2
    if task == "even-pairs":
        text = "".join(map(str, ids))
        pairs = [text[i:i + 2] for i in range(len(text) - 1)]
        return (pairs.count("01") + pairs.count("10")) % 2
    if task == "missing-duplicate":
        for bit in (0, 1):
            whole = [bit if i == 2 else i for i in ids]
            if whole[:len(ids) // 2] == whole[len(ids) // 2:]:
                return bit
    if task == "cycle-navigation":
        place = 0
        for move in ids:
            place = (place + (-1, 0, 1)[move]) % 5
        return place
    if task == "stack-manipulation":
        stack = []
        for i in ids:
            if i == 2:
                stack = stack[:-1]
            else:
                stack = stack + [i if i < 2 else i - 3]
        return stack[-1] if stack else 2
    if task == "modular-arithmetic":
        return eval("".join(MODULAR[i] for i in ids)) % 5
    if task == "solve-equation":
        left, right = "".join(EQUATION[i] for i in ids).split("=")
        assert left.count("x") == 1, "x stands in the expression, never after the equals sign"
        fits = [x for x in range(5) if (eval(left.replace("x", str(x))) - int(right)) % 5 == 0]
        assert len(fits) == 1, (left, right, fits)
        return fits[0]
    if task == "flip-flop":
        text = "".join(FLIP_FLOP[i] for i in ids)
        # Between two writes, only the bit of the first may be read.
        assert re.fullmatch(r"((W0(I[01]|R0)*)|(W1(I[01]|R1)*))+R\?", text), text
        return int(text.split("W")[-1][0])
    raise ValueError(task)


def expression(n, operators, rng):
    if n <= 4:
        digit = str(rng.randrange(5))
        return (digit, "-" + digit, f"({digit})", f"(-{digit})")[n - 1]
    left = rng.randint(1, n - 4)
    parts = expression(left, operators, rng), rng.choice(operators), expression(n - left - 3, operators, rng)
    return f"({''.join(parts)})"


def listops_tree(depth, rng, max_depth=10, max_args=10):
    """Symbols of an expression, by the procedure of the Long Range Arena."""
    if depth >= max_depth or rng.random() > 0.25:
        return [str(rng.randrange(10))]
    arguments = [listops_tree(depth + 1, rng) for _ in range(rng.randint(2, max_args))]
    return [rng.choice(LISTOPS[10:14])] + [symbol for argument in arguments for symbol in argument] + ["]"]


def sample(task, n, rng):
    """Token ids of a sequence of the task."""
    bits = lambda k: [rng.randrange(2) for _ in range(k)]
    if task in ("parity", "even-pairs"):
        return bits(n)
    if task == "missing-duplicate":
        ids = bits(n // 2) * 2
        ids[rng.randrange(len(ids))] = 2
        return ids + [3] * (n % 2)
    if task == "cycle-navigation":
        return [rng.randrange(3) for _ in range(n)]
    if task == "stack-manipulation":
        size = rng.randint(1, n - 1)
        return bits(size) + [rng.randint(2, 4) for _ in range(n - size)]
    if task == "modular-arithmetic":
        return [MODULAR.index(c) for c in expression(n, "+-*", rng)]
    if task == "solve-equation":
        left = expression(n - 2, "+-", rng)
        start = rng.randrange(n - 2)
        place = next(i % (n - 2) for i in range(start, start + n - 2) if left[i % (n - 2)].isdigit())
        return [EQUATION.index(c) for c in f"{left[:place]}x{left[place + 1:]}={eval(left) % 5}"]
    if task == "flip-flop":
        text = "W" + rng.choice("01")
        while len(text) < n // 2 * 2 - 2:
            kind = rng.choices("WIR", (0.1, 0.8, 0.1))[0]
            text += kind + (text[text.rindex("W") + 1] if kind == "R" else rng.choice("01"))
        return [FLIP_FLOP.index(c) for c in text + "R?"] + [6] * (n % 2)
    while True:
        symbols = listops_tree(1, rng)
        if n < len(symbols) < n + 100:
            return [LISTOPS.index(symbol) for symbol in symbols]


def program_labels(program, task, lines):
    done = subprocess.run([program, "data", "label", task], input="\n".join(lines) + "\n", text=True,
                          capture_output=True, check=True)
    return [int(line) for line in done.stdout.split()]


def check(program, count):
    rng = random.Random(1)
    for task in PAD:
        shortest = SHORTEST.get(task, 3)
        lengths = [[]] if task == "listops" else [[], ["--length", f"{shortest}..60"], ["--length", "41"]]
        total = 0
        for seed, extra in enumerate(lengths):
            arguments = [program, "data", "generate", task, "-n", str(count), "--seed", str(seed), *extra]
            lines = subprocess.run(arguments, text=True, capture_output=True, check=True).stdout.splitlines()
            sequences, labels = zip(*(line.split("\t") for line in lines))
            mine = [label(task, list(map(int, sequence.split()))) for sequence in sequences]
            assert mine == list(map(int, labels)), f"{task}: labels of the generated file differ"
            assert mine == program_labels(program, task, sequences), f"{task}: `data label` differs"
            total += len(mine)
        between = (60, 400) if task == "listops" else (shortest, 60)
        made = [sample(task, rng.randint(*between), rng) for _ in range(count)]
        mine = [label(task, ids) for ids in made]
        assert mine == program_labels(program, task, [" ".join(map(str, ids)) for ids in made]), f"{task}: made up"
        print(f"{task}: {total} generated and {len(made)} made-up sequences agree")
    for task, ids, words in (("solve-equation", "3 10 9", "before `=`"), ("flip-flop", "2 1 4 0 4 5", "last written")):
        refused = subprocess.run([program, "data", "label", task], input=ids + "\n", text=True, capture_output=True)
        assert refused.returncode == 1 and words in refused.stderr, f"{ids} is not a sequence of {task}"


def fixture():
    rng = random.Random(2)
    print("# Made by labels.py: task, token ids, label. And the labels of ListOps expressions of 501 to 599 tokens.")
    for task in PAD:
        for n in (3, 4, 5, 8, 9, 13, 20, 40) if task != "listops" else (1, 10, 20, 40, 80):
            for _ in range(4):
                ids = sample(task, max(n, SHORTEST.get(task, n)), rng)
                print(task, " ".join(map(str, ids)), label(task, ids), sep="\t")
    shares = [0] * 10
    for _ in range(3000):
        shares[label("listops", sample("listops", 500, rng))] += 1
    print("listops-shares", " ".join(map(str, shares)), sum(shares), sep="\t")


if __name__ == "__main__":
    if sys.argv[1:2] == ["check"] and len(sys.argv) in (3, 4):
        check(sys.argv[2], int(sys.argv[3]) if len(sys.argv) == 4 else 3000)
    elif sys.argv[1:] == ["fixture"]:
        fixture()
    else:
        sys.exit(__doc__)
