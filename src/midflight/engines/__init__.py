"""Who drives which run, and where. Safety comes from the journal; an engine gives liveness."""
