"""AG-UI 1.0 over HTTP and server-sent events, for an app of your own: ``agui.router``."""

from midflight.interfaces.agui.agui_router import router

__all__ = ["router"]
