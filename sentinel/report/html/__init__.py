"""A run, or one incident of it, as a self-contained HTML file: `sentinel report`, and written by itself when an incident closes.

collected  what the journal says, in one pass       story, rows, cost, evidence   the parts, as plain values
curves     what the streams say around an onset     drawing                       curves as SVG
page       the parts in a template                  writing, keeper               the files, and who writes them when
"""
