"""A small bucket of our own that speaks as Google's does: resumable sessions, objects, signed notifications.

server.py    the port                     app.py       which request goes where
xml_api.py   sessions of phones           json_api.py  what the official clients call
sessions.py  bytes come in                ledger.py    objects come to be, once each
shelf.py     files that survive a kill    pushing.py   whoever wants to know is told
"""
