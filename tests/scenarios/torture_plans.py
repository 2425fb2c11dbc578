"""What the runs of the cancel torture do, and when each is cancelled: drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from scenarios.torture_cancel import Plan
from scenarios.torture_world import Task

PARENTS = 0.4
COMMON = ["create", "order", "book", "lock", "pay", "send", "careful", "upsert", "engrave", "look"]


def drawn(seed: int, *, aimed: bool) -> tuple[Task, Plan]:
    """What a run does, and when it is cancelled; its name comes later."""
    chance = random.Random(seed)
    kinds = chance.choices(COMMON, k=chance.randint(3, 6))
    if seed % 25 == 0:
        kinds[chance.randrange(2)] = "convert"
    if seed % 40 == 1:
        kinds[0] = "glue"
    does = chained(chance, kinds)
    moments = ["starting"] * 6 if aimed else ["entered"]
    if chance.random() < PARENTS:
        add_child(chance, does, depth=1)
        moments += ["spawning", "spawned", "grown"]
    tasks = [Task(does), *below(does)]
    effects = sum(part != "look" for task in tasks for part in flat(task) if isinstance(part, str))
    grown = sum(not task.lingers for task in tasks)
    most = {"settled": len(does), "entered": 1, "spawning": len(tasks) - 1, "grown": grown}
    most["spawned"] = most["spawning"]
    moment = chance.choice(["started", "started", "settled", *moments])
    n = chance.randint(1, max(1, most.get(moment, effects)))
    if "send" in kinds and chance.random() < 0.5 and not aimed:
        moment, n = "window", 1
    return Task(does), Plan(
        run="",
        moment=moment if most.get(moment, effects) else "entered",
        n=n,
        wait=0.0 if aimed else chance.choice([0.0, chance.random() / 100]),
        turns=chance.randrange(10) if aimed and moment in {"settled", "grown"} else 0,
        now=chance.random() < 0.1,
        again=chance.random() < 0.1,
    )


def flat(task: Task) -> list[str | Task]:
    return [part for parts in task.does for part in parts]


def below(does: Sequence[Sequence[str | Task]]) -> Iterator[Task]:
    """The tasks of all who work under one who does this."""
    for parts in does:
        for part in parts:
            if isinstance(part, Task):
                yield part
                yield from below(part.does)


def chained(chance: random.Random, kinds: Sequence[str]) -> list[list[str | Task]]:
    """One after the other, or the first two side by side."""
    does: list[list[str | Task]] = [[kind] for kind in kinds]
    together = chance.random() < 0.3 and len(kinds) > 1
    return [does[0] + does[1], *does[2:]] if together else does


def add_child(chance: random.Random, does: list[list[str | Task]], depth: int) -> None:
    """Give a task to a child: before the rest, in between, or while something else is done.

    Some of them end, and of these some are waited for; some leave a child of their own at work.
    """
    kinds = chance.choices(COMMON, k=chance.randint(1, 3))
    if chance.random() < 0.1:
        kinds[-1] = "convert"
    its = chained(chance, kinds)
    if depth < 3 and chance.random() < 0.4:
        add_child(chance, its, depth + 1)
    ends = chance.random() < 0.5
    child = Task(its, lingers=not ends, awaited=ends and chance.random() < 0.5)
    if chance.random() < 0.5:
        does.insert(chance.randint(0, len(does)), [child])
    else:
        does[chance.randrange(len(does))].append(child)
    if depth == 1 and chance.random() < 0.3:
        add_child(chance, does, depth + 1)
