"""What is shown while trials run: bars on a terminal, plain lines elsewhere."""

import sys
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


class Shown:
    """A bar over all trials and one for each that runs; fed from this process or from others."""

    def __init__(self, total: int, there: int) -> None:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(20),
            TextColumn("{task.fields[now]}", markup=False),
            TimeRemainingColumn(),
        )
        console = Console(stderr=True)
        self.bar = Progress(*columns, console=console, disable=not sys.stderr.isatty())
        self.there = there
        self.all = self.bar.add_task("all trials", now="", total=float(total), completed=there)
        self.bars: dict[str, Any] = {}
        self.part: dict[str, float] = {}  # of each trial, what is done

    def expect(self, more: int) -> None:
        """Adds trials that were not requested but resume together with others."""
        self.bar.update(self.all, total=(self.bar.tasks[self.all].total or 0) + more)

    def update(self, label: str, done: float, now: str) -> None:
        if self.part.get(label) == 1:  # news that a finished trial has overtaken
            return
        if label not in self.bars:
            self.bars[label] = self.bar.add_task(label, now="", total=1.0)
        self.part[label] = min(done, 0.999)
        self.bar.update(self.bars[label], completed=done, now=now)
        self._count()

    def finish(self, label: str, line: str) -> None:
        self.part[label] = 1.0
        if label in self.bars:
            self.bar.remove_task(self.bars.pop(label))
        self._count()
        self.say(label, line)

    def say(self, label: str, line: str) -> None:
        console = self.bar.console  # a plain print would be painted over by the bars
        console.print(f"{label}: {line}", markup=False, highlight=False, soft_wrap=True)

    def _count(self) -> None:
        self.bar.update(self.all, completed=self.there + sum(self.part.values()))
