#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Print the process numbers of the running instances.
systemctl show --value --property=MainPID memstretch-redis@6401.service memstretch-redis@sock.service
