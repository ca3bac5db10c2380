#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# The processes of the instances that run.
systemctl show --value --property=MainPID memstretch-redis@6401.service memstretch-redis@sock.service
