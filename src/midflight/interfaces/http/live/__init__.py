"""Live views: journals followed once for everybody who watches, sent as event streams."""
