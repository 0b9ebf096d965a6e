# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Bugs of the target, of one loop and between loops, for mutate.py."""
UTIL = ["tests/nvmet/test_nvmet_util.c", "tests/support/nvmehost.c"]
PROGRAMS = {
    "contract": ["tests/nvmet/test_nvmet.c", *UTIL],
    "ends": ["tests/nvmet/test_nvmet_ends.c", *UTIL],
    "random": ["tests/nvmet/test_nvmet_random.c", "tests/nvmet/test_nvmet_play.c", *UTIL],
    "orders": ["tests/nvmet/test_nvmet_orders.c", *UTIL],
}
L = "lib/nvmet/"

# name, file, text (any white space for white space), what instead, (program, filter)
BUGS = [
    # ends of connections
    ("the fence is not raised before the message", L + "conn.c",
     "if (c->kind == NVMET_CONN_IO) snic_nvmesub_io_lost(c->sub->view, &c->queue);", "",
     ("orders", "*loss*")),
    ("the device's loop does not look at lost connections", L + "device.c",
     "return atomic_load_explicit(&c->gone, memory_order_acquire) != 0 ||", "return",
     ("orders", "*orders_loss*")),
    ("the device's loop does not look at the view", L + "device.c",
     "snic_nvmesub_io_ended(nvmet_device_of(cmd)->sub->view, &c->mark);", "0;",
     ("orders", "*admin*")),
    ("STOPPED does not wait for the device", L + "conn.c",
     "if (!c->used || !c->stopping || c->active > 0)", "if (!c->used || !c->stopping)",
     ("ends", "*dies_and_returns*")),
    ("a lost connection is not reported", L + "conn.c",
     "if (c->sought && !c->ended) nvmet_mail_send(", "if (0) nvmet_mail_send(",
     ("ends", "*dies*")),
    ("commands at the device are forgotten by the end", L + "conn.c",
     "case NVMET_CMD_DEVICE: nvmet_inside_cancel(cmd);",
     "case NVMET_CMD_DEVICE: nvmet_cmd_free(cmd);",
     ("ends", "*dies*")),
    # between loops
    ("a cancel is not awaited", L + "inside.c", "if (cmd->cancelling) cmd->back = cmd->result;",
     "if (0) cmd->back = cmd->result;", ("random",)),
    ("the return after a cancel is lost", L + "inside.c",
     "if (back != NVMET_BACK_NONE) nvmet_inside_take(cmd, back);", "(void)back;", ("random",)),
    ("messages of a batch in reverse", L + "mail.c",
     "if (box->first == NULL) box->first = m; else box->last->next = m; box->last = m;",
     "m->next = box->first; box->first = m;", ("random",)),
    ("UNFENCE reaches the first loop only", L + "seat.c",
     "for (uint32_t i = 0; i < first->loop_count; i++) { struct nvmet_note *n",
     "for (uint32_t i = 0; i < 1; i++) { struct nvmet_note *n", ("ends", "*other_is_held*")),
    # namespaces
    ("a new namespace is known to the first loop only", L + "subsystem.c",
     "for (uint32_t i = 0; i < t->loop_count; i++) nvmet_mail_send(t, t->loops[i],",
     "for (uint32_t i = 0; i < 1; i++) nvmet_mail_send(t, t->loops[i],",
     ("contract", "*power_cut*")),
    # commands
    ("memory is lent twice", L + "pages.c", "run = nvmet_page_used(c, page++) ? 0 : run + 1;",
     "page++; run++;", ("contract",)),
    ("data that were read are free before they are sent", L + "command.c",
     "if (r == 0 && data_out > 0)", "if (0)", ("contract",)),
    ("a full device is forgotten", L + "device.c",
     "snic_link_append(&dev->room, &cmd->link); snic_io_wait(dev->io, &dev->waiter);",
     "snic_link_append(&dev->room, &cmd->link);", ("contract", "*device_full*")),
    ("FUA is not made durable", L + "device.c",
     "if (op->fua && writes && !durable && !cmd->flushing)", "if (0)", ("contract", "*power_cut*")),
]
