"""HTTP: connections, limits, authentication, bodies.

serving        socket and server process
connections    connections with a bound on everything slow
limits         limits per client and in all
middleware     access log, security headers, CORS, hosts
auth           roles and sessions
tokens         token database
bodies         request bodies: JSON lines, CSV, Arrow
arrow_sizes    decoded sizes of Arrow bodies
read_worker    the thread that reads rows
errors         error replies
"""
