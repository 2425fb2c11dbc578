/** A part of the page that can break without taking the rest with it, and then says so. */
import { Component, type ReactNode } from "react";

interface Props { part: string; children: ReactNode }

/** An empty screen would hide a run that goes on; with the panes apart, the bar outlives them. */
export class Sound extends Component<Props, { why: string }> {
  override state = { why: "" };

  static getDerivedStateFromError(error: unknown): { why: string } {
    return { why: (error instanceof Error && error.message) || String(error) || "it did not say why" };
  }

  override render(): ReactNode {
    return this.state.why ? <Broken part={this.props.part} why={this.state.why} /> : this.props.children;
  }
}

function Broken({ part, why }: { part: string; why: string }) {
  return (
    <div className="broken" role="alert">
      <h1>{part} cannot be shown</h1>
      <p className="quiet">Something in the page broke. Nothing was changed by that: the agent goes on, and what you have typed is kept.</p>
      <p className="mono">{why}</p>
      <div className="buttons">
        <button type="button" className="button filled" onClick={() => location.reload()}>
          Reload
        </button>
      </div>
    </div>
  );
}
