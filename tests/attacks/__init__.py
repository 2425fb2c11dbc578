"""What attackers do, and what comes of it. Each story was red before its fault was closed."""
