/** What is still to do: the steps that are left, then what was put off, each with what a press would mean. */
import { useState } from "react";
import { attempt } from "../actions";
import { ENDED, type RunSheet, type ThreadSheet, type TodoOffer } from "../model/types";
import { nameIn } from "../model/talk";
import { count, isCurrent, oneLine } from "../model/words";
import { api } from "../net/api";
import { followFront, useApp } from "../store";
import { Icon, type IconName } from "./Icon";
import { Steer } from "./Steer";

const ICONS: Record<string, IconName> = { running: "run", retrying: "run", paused: "pause", waiting: "ask" };
const STEPS_SHOWN = 4;
const NEW_S = 300;

export function TodoCard({ run, thread }: { run: RunSheet; thread: ThreadSheet }) {
  if (thread.todos.length === 0) return null;
  const left = ENDED.has(run.phase) ? [] : run.steps.filter((step) => isCurrent(step) || step.status === "queued");
  return (
    <li className="todo-card">
      <h3>To do</h3>
      <ul>
        {left.slice(0, STEPS_SHOWN).map((step) => (
          <li key={step.id}>
            <span className={isCurrent(step) ? (step.status === "running" ? "tone-run" : "tone-warn") : "tone-calm"}>
              <Icon name={ICONS[step.status] ?? "queued"} size={16} />
            </span>
            <span>{oneLine(step.name)}</span>
          </li>
        ))}
        {left.length > STEPS_SHOWN && (
          <li>
            <span />
            <span>{count(left.length - STEPS_SHOWN, "more step")}</span>
          </li>
        )}
        {thread.todos.map((todo) => (
          <One key={todo.todo} todo={todo} thread={thread} />
        ))}
      </ul>
    </li>
  );
}

function One({ todo, thread }: { todo: TodoOffer; thread: ThreadSheet }) {
  const [wrong, setWrong] = useState("");
  const told = useApp((app) => app.world.told);
  const added = thread.lines.find((line) => line.position === todo.todo)?.at ?? 0;
  const fresh = told - added < NEW_S;
  const doNow = () => {
    followFront();
    void attempt((key) => api.talk(thread.thread, "do_now", { todo: todo.todo }, key), setWrong);
  };
  const earlier = thread.todos[thread.todos.indexOf(todo) - 1];
  const sooner = () => {
    const others = thread.todos.map((each) => each.todo).filter((each) => each !== todo.todo);
    const order = others.flatMap((each) => (each === earlier!.todo ? [todo.todo, each] : [each]));
    void attempt((key) => api.talk(thread.thread, "reorder", { order }, key), setWrong);
  };
  const remove = () => void attempt((key) => api.talk(thread.thread, "remove_todo", { todo: todo.todo }, key), setWrong);
  return (
    <li className={fresh ? "new" : ""}>
      <span className="tone-calm">
        <Icon name={todo.kind === "parked" ? "pause" : "later"} size={16} />
      </span>
      <span>
        <bdi>{nameIn(thread, todo)}</bdi>
        {todo.kind === "parked" && <span className="todo-note" title={todo.note}>Parked. {oneLine(todo.note)}</span>}
      </span>
      {fresh ? <em>new</em> : <span />}
      <span className="todo-acts">
        <Steer className="link" title={todo.now} onClick={doNow}>
          Do it now<span className="hidden-words">, {todo.text}: {todo.now}</span>
        </Steer>
        {earlier && (
          <Steer className="link" title={`Before ${nameIn(thread, earlier)}`} onClick={sooner}>
            Sooner<span className="hidden-words">, {todo.text}: before {nameIn(thread, earlier)}</span>
          </Steer>
        )}
        <Steer className="link" title={todo.remove} onClick={remove}>
          Remove<span className="hidden-words">, {todo.text}: {todo.remove}</span>
        </Steer>
        {wrong && <span className="wrong" role="alert">{wrong}</span>}
      </span>
    </li>
  );
}
