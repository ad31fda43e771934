"""The server: HTTP API and live page of a running pipeline.

    app                   the application: routes and middleware
    tuning                intervals, timeouts and sizes that no file sets
    runner                the run, in a thread
    publishing/           publication on the clock
    http/                 connections, limits, authentication, bodies
    routes/               one module per resource
    openapi.json          the OpenAPI document; tests compare it with the routes

It needs the extra [server]: starlette, uvicorn and plotly.

**Privacy.** No reply that an analyst or a reader can see depends on private data except through a release, and
neither does its time. Releases and replies of the run leave on a clock. Limits of readers do not depend on what
the curator sends. Errors do not repeat the text of exceptions.
"""
