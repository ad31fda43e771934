"""The durable store: state, ledger, source position and releases of a tick in one transaction.

schema            SQLite tables and connections
sqlite            the SQLite backing: rows and key slots in a folder
drivers           choice of the store by `[stream] store`
encryption        state at rest, under keys that die with the next commit
hash_chain        hash over the public history
integrity         checks of history and state
store             `Store`: head and commits
reader            public history, without the key
keys              the curator's key
lock              one run at a time
rollback_guard    detection of an older copy
backup            copies and key changes
errors            typed errors
"""
