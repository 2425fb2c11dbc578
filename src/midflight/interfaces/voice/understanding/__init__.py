"""Words and sounds judged before any model is asked."""
