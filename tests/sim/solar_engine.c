/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The engine's sources in one, of which sim/solar_mutate.py builds copies with a bug. */
#include "solar/init.c"

#include "solar/agent.c"
#include "solar/answer.c"
#include "solar/check.c"
#include "solar/congestion.c"
#include "solar/conn.c"
#include "solar/disk.c"
#include "solar/path.c"
#include "solar/recv.c"
#include "solar/rpc.c"
#include "solar/send.c"
#include "solar/server.c"
#include "solar/session.c"
#include "solar/target.c"
#include "solar/wire.c"
