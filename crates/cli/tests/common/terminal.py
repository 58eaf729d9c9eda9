"""Runs a program in a pseudo-terminal and prints, as JSON, what a person would see.

    terminal.py '{"columns": 80, "env": {"TERM": "xterm"}, "events": [["left", "resize", 40], ["left", "interrupt"]]}' PROGRAM ARGUMENT…

Every event waits until a pattern is on the screen that the program has drawn since the event before, however long that takes. If it takes
more than ten minutes, the program is killed, and `missing` has the pattern.

The emulation knows what the program uses: line ends, colours, moving the cursor up to the start of an earlier row, and erasing from
there. Lines are broken anew when the width changes, as most terminals do. Needs only Python 3 on a Unix system.
"""

import fcntl
import json
import os
import pty
import re
import select
import struct
import sys
import termios
import time

options = json.loads(sys.argv[1])
columns, rows = options["columns"], options.get("rows", 30)
events = list(options.get("events", []))


def set_size(terminal, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


child, terminal = pty.fork()
if child == 0:
    time.sleep(0.1)  # until the size is set
    os.environ.pop("NO_COLOR", None)
    os.environ.update(options.get("env", {}))
    os.execv(sys.argv[2], sys.argv[2:])
set_size(terminal, columns)

lines, moments, colours, unknown, pending = [""], [], False, [], ""
is_new = False  # whether anything was drawn since the last event
LIMIT = 600  # seconds until a test gives up; no test waits for so long


def height(line):
    return max(1, -(-len(line) // columns))


def erase_up(count):
    """Erases so many rows above the cursor, which is at the start of an empty last line."""
    while count > 0 and len(lines) > 1:
        line = lines[-2]
        if height(line) <= count:
            count -= height(line)
            del lines[-2]
        else:
            lines[-2] = line[: (height(line) - count) * columns]
            count = 0


def show(text):
    global pending, colours, is_new
    is_new = True
    text = pending + text
    pending = ""
    for piece in re.findall(r"\x1b\[\d*[A-Za-z]|\x1b\[?\d*$|\x1b.|\r\n|\r|\n|[^\x1b\r\n]+", text):
        if re.fullmatch(r"\x1b\[?\d*", piece):
            pending = piece
        elif piece in ("\n", "\r\n"):
            lines.append("")
        elif piece == "\r":
            pass
        elif re.fullmatch(r"\x1b\[\d*m", piece):
            colours = True
        elif re.fullmatch(r"\x1b\[\d+A", piece):
            lines[-1] = ""
            erase_up(int(piece[2:-1]))
        elif piece == "\x1b[J":
            lines[-1] = ""
        elif piece.startswith("\x1b"):
            unknown.append(piece)
        else:
            lines[-1] += piece


began = time.monotonic()
decoder = __import__("codecs").getincrementaldecoder("utf-8")()


def read(seconds):
    """Shows what the program writes within so many seconds; false at its end."""
    ready, _, _ = select.select([terminal], [], [], seconds)
    if not ready:
        return True
    try:
        data = os.read(terminal, 65536)
    except OSError:
        return False
    show(decoder.decode(data))
    return bool(data)


while read(0.05):
    if time.monotonic() - began > LIMIT:
        os.kill(child, 9)
        break
    if select.select([terminal], [], [], 0)[0]:
        continue  # in the middle of a frame
    if events and is_new and re.search(events[0][0], "\n".join(lines)):
        event = events.pop(0)
        is_new = False
        if event[1] == "resize":
            columns = event[2]
            set_size(terminal, columns)
        elif event[1] == "interrupt":
            os.write(terminal, b"\x03")
        elif event[1] == "look":
            moments.append(list(lines))
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(json.dumps({
    "code": code, "lines": lines, "moments": moments, "colours": colours, "unknown": unknown,
    "missing": events[0][0] if events else None,
}))
