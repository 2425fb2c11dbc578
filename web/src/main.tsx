import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { boot } from "./boot";
import "./styles/index.css";
import { applyTheme } from "./theme";
import { App } from "./ui/App";
import { Sound } from "./ui/Sound";

applyTheme();
void boot();
createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <Sound part="This page">
      <App />
    </Sound>
  </StrictMode>,
);
