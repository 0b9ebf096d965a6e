/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A second copy of the module in one program: include this first, then the module's sources or
 * what is to use them. The copy's functions are called teeth_VERB.
 */
#ifndef SNIC_TEST_MEMBER_RENAME_H
#define SNIC_TEST_MEMBER_RENAME_H

#define snic_member_memsize teeth_memsize
#define snic_member_opts_wrong teeth_opts_wrong
#define snic_member_init teeth_init
#define snic_member_step teeth_step
#define snic_member_poll teeth_poll
#define snic_member_deadline_ns teeth_deadline_ns
#define snic_member_get_status teeth_get_status
#define snic_member_check teeth_check
#define member_is_majority teeth_is_majority
#define member_view_is_sane teeth_view_is_sane
#define member_record_is_sane teeth_record_is_sane
#define member_changed teeth_changed
#define member_running teeth_running
#define member_learn teeth_learn
#define member_on_stored teeth_on_stored
#define member_on_register teeth_on_register
#define member_try_vote teeth_try_vote
#define member_propose teeth_propose
#define member_resend teeth_resend
#define member_grant_span teeth_grant_span
#define member_heartbeat teeth_heartbeat
#define member_hears teeth_hears
#define member_on_heartbeat teeth_on_heartbeat
#define member_on_grant teeth_on_grant
#define member_on_fence teeth_on_fence
#define member_on_fence_ack teeth_on_fence_ack
#define member_fence_self teeth_fence_self
#define member_vote_time teeth_vote_time
#define member_alive teeth_alive
#define member_next_view teeth_next_view
#define member_restart_missing teeth_restart_missing
#define member_consider teeth_consider
#define member_slow teeth_slow
#define member_since_of teeth_since_of
#define member_silent teeth_silent
#define member_peers teeth_peers
#define member_on_change teeth_on_change
#define member_incarnation_of teeth_incarnation_of
#define member_confirm_go_on teeth_confirm_go_on
#define member_confirm teeth_confirm
#define member_change_name teeth_change_name
#define member_change_learned teeth_change_learned
#define member_change_found teeth_change_found
#define member_change_apply teeth_change_apply
#define member_is_blank teeth_is_blank
#define member_renumber teeth_renumber

#endif /* SNIC_TEST_MEMBER_RENAME_H */
