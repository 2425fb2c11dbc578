"""The interruptibility kit: scores any runtime for agents on what it does when people interrupt it.

A runtime is driven by a small adapter, a program of its own that uses the runtime's documented API.
The kit watches from outside: by a ledger that every tool tells what it does, by ``/proc``, and by a
stand-in for the model's provider. It takes no runtime's word for what happened.
"""
