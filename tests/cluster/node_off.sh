#!/bin/bash
# node_off.sh nK: a power cut: everything on the node dies at once.
R=${R:?the folder that nodes_up.sh was given}
kill -9 "$(cat "$R/node.$1.pid")"
