"""Running counts of few events.

cascading_buffers    pan-private buffers that are updated rarely
sparse_counter       a sparse vector that decides when to count
choice               prediction of errors, and the choice of a counter
"""
