"""Speech: engines, utterances and their playback."""
