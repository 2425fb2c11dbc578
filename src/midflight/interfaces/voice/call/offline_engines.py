"""The engines that come with ``midflight[voice]``: nothing is sent anywhere, nothing is fetched."""

from __future__ import annotations

from midflight.interfaces.voice.call.line import Engines
from midflight.interfaces.voice.speech.espeak import Espeak
from midflight.interfaces.voice.speech.moonshine import Moonshine
from midflight.interfaces.voice.speech.silero import Silero


def offline_engines(voice: str = "en-us") -> Engines:
    """Return Silero, Moonshine and espeak-ng, loaded and tried: a missing one raises now."""
    silero, moonshine, espeak = Silero(), Moonshine(), Espeak(voice)
    silero.hear(bytes(1024))
    moonshine.hear(bytes(16_000))
    espeak.made("Hello.")
    return Engines(Silero, (moonshine,), (espeak,))
