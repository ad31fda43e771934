"""The server: what a curator's systems send to, what analysts ask, what readers and the page read.

    events, batches, bodies     batches on their way into the inbox       (curator)
    asking, signing_in          plans, releases asked for, sessions       (analyst)
    runner, departures, board   the run in its thread, and when what it released leaves
    reading, live, page_files   what was released, and the page           (reader)
    roles, tokens, sessions, limits, security_headers, errors    at the door, for all
    app, openapi, serving       all of it together, described, listening

It needs the extra [server]: starlette, uvicorn and plotly.

**Privacy.** No reply that an analyst or a reader can see depends on private data but through a release, nor
does its time: releases and answers of the run leave on a clock, limits of readers do not know what the
curator sends, and what goes wrong is told without its words.
"""
