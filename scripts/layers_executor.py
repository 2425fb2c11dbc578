"""The protecting layers of the executor, its engine and its tools; see ``layers.py``."""

from __future__ import annotations

from layers import Mutant

EXECUTOR, TOOLS = "src/midflight/executor/", "src/midflight/tools/"
KERNEL = "src/midflight/kernel/"

EXECUTOR_MUTANTS = (
    Mutant(
        "executor: one more look between the record of a start and its first line",
        EXECUTOR + "steps.py",
        "        driver.look_again()  # no await",
        "        pass  # no await",
        ("tests/scenarios/test_verbs.py",),
    ),
    Mutant(
        "executor: what cannot start is not asked to be recorded",
        EXECUTOR + "steps.py",
        "        if not self.driver.may_start(self.course):\n            return []\n        epoch",
        "        epoch",
        ("tests/scenarios/test_verbs.py",),
    ),
    Mutant(
        "executor: a cancel waits until everything in flight has settled",
        EXECUTOR + "cancel.py",
        "    await _settle(driver)\n",
        "",
        ("tests/scenarios/test_cancel.py",),
    ),
    Mutant(
        "executor: a cancel undoes",
        EXECUTOR + "cancel.py",
        "    await compensate(driver)\n",
        "",
        ("tests/scenarios/test_torture.py",),
    ),
    Mutant(
        "executor: a cancel aborts effects too",
        EXECUTOR + "cancel.py",
        'driver.abort("cancelled", effects=True)',
        'driver.abort("cancelled", effects=False)',
        ("tests/scenarios/test_cancel.py",),
    ),
    Mutant(
        "executor: the newest effect is undone first",
        EXECUTOR + "undo.py",
        "    return max(able,",
        "    return min(able,",
        ("tests/scenarios/test_cancel.py",),
    ),
    Mutant(
        "executor: what is in doubt is checked first",
        EXECUTOR + "undo.py",
        "    await _look_into_doubts(driver)\n",
        "",
        ("tests/scenarios/test_torture.py",),
    ),
    Mutant(
        "executor: an undo under way hears a hurried cancel and a kill",
        EXECUTOR + "undo.py",
        "        tasks.start_soon(abort)\n",
        "",
        ("tests/scenarios/test_undo.py",),
    ),
    Mutant(
        "executor: undoing is wanted or not at the moment of its decision",
        EXECUTOR + "undo.py",
        "or state.undos or not wanted(state, state.effects[effect.position]):",
        "or state.undos:",
        ("tests/scenarios/test_undo.py", "tests/scenarios/test_torture.py"),
    ),
    Mutant(
        "executor: who was aborted and knows that nothing happened is believed",
        EXECUTOR + "calls.py",
        "            if self._why and not isinstance(error, NotDone):",
        "            if self._why:",
        ("tests/scenarios/test_torture.py",),
    ),
    Mutant(
        "executor: a cancel of the tool's own is not taken for ours",
        EXECUTOR + "calls.py",
        "            if not self._why and being_ended():",
        "            if not self._why:",
        ("tests/scenarios/test_stubborn.py",),
    ),
    Mutant(
        "executor: a thread that has not begun never does",
        EXECUTOR + "calls.py",
        "        if not self._door.acquire(blocking=False):\n            raise",
        "        if False:\n            raise",
        ("tests/scenarios/test_stubborn.py",),
    ),
    Mutant(
        "executor: a cancelled function is told again whatever it catches",
        EXECUTOR + "context.py",
        "            driver.raise_if_told(driver.heard)\n",
        "            pass\n",
        ("tests/scenarios/test_stubborn_agents.py",),
    ),
    Mutant(
        "executor: a run waits for the steps that its function forgot",
        EXECUTOR + "moves.py",
        "    await _settle_forgotten(driver)\n",
        "",
        ("tests/scenarios/test_stubborn_agents.py",),
    ),
    Mutant(
        "executor: a redirect reaches a function that has just ended",
        EXECUTOR + "drive.py",
        "        self.function.redirected(told.brief)\n",
        "",
        ("tests/scenarios/test_stubborn_agents.py",),
    ),
    Mutant(
        "engine: a driver that fails harms no other",
        "src/midflight/engines/local.py",
        "        except Exception as error:  # one",
        "        except StoreError as error:  # one",
        ("tests/scenarios/test_trouble.py",),
    ),
    Mutant(
        "engine: a driver that fails gives its run back",
        "src/midflight/engines/local.py",
        "            self._stumbled.add(run)\n",
        "            pass\n",
        ("tests/scenarios/test_trouble.py",),
    ),
    Mutant(
        "tools: orphans of a process tool come to its supervisor",
        TOOLS + "supervisor.py",
        "        self.subreaper = become_subreaper()",
        "        self.subreaper = False",
        ("tests/scenarios/test_stubborn.py",),
    ),
    Mutant(
        "crash: what a dead driver had in flight is in doubt",
        EXECUTOR + "moves.py",
        "outcome = Outcome.UNKNOWN if attempt.effect.touches_world else Outcome.ABORTED",
        "outcome = Outcome.DONE",
        ("tests/scenarios/test_crash.py",),
    ),
    Mutant(
        "crash: what must happen once is not repeated without a word",
        EXECUTOR + "doubt.py",
        "    if step.tool.effect is Effect.WRITE and recent:",
        "    if True:",
        ("tests/scenarios/test_crash.py",),
    ),
    Mutant(
        "crash: an undo that was cut off is done again",
        EXECUTOR + "moves.py",
        'why="worker lost", final=False',
        'why="worker lost", final=True',
        ("tests/scenarios/test_crash.py",),
    ),
    Mutant(
        "crash: a back-off is waited out by whoever takes over",
        EXECUTOR + "backoff.py",
        "left = driver.log.state.timers.get(timer, 0.0) - driver.clock()",
        "left = 0.0",
        ("tests/scenarios/test_timers.py",),
    ),
    Mutant(
        "crash: a takeover gives no more tries",
        EXECUTOR + "heard.py",
        "                self.timers[event.name] = self.timers.get(event.name, 0) + 1",
        "                pass",
        ("tests/scenarios/test_timers.py",),
    ),
)
