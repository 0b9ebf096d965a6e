# SPDX-License-Identifier: Apache-2.0 OR MIT
# Sources that several programs (examples, tests, fuzz targets, benches) have are compiled once.
#   snic_group(NAME FILE...)   files below the root that programs have together. They are compiled
#                              as an object library, group_NAME, when the first program has them.
#   snic_compiled(OUT FILE...) a program's sources. A group that is whole among them is replaced by
#                              its objects, and so is a file that tests/ compiles as an object.
set_property(GLOBAL PROPERTY SNIC_GROUPS "")

function(snic_group name)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/)
  set_property(GLOBAL APPEND PROPERTY SNIC_GROUPS ${name})
  set_property(GLOBAL PROPERTY SNIC_GROUP_${name} ${ARGN})
endfunction()

# The name of the object library that tests/ makes of one source.
function(snic_object_name out source)
  file(RELATIVE_PATH t ${PROJECT_SOURCE_DIR} ${source})
  string(MAKE_C_IDENTIFIER "objects_${t}" t)
  set(${out} ${t} PARENT_SCOPE)
endfunction()

function(snic_compiled out)
  set(sources "")
  set(objects "")
  foreach(source ${ARGN})
    if(source MATCHES "^\\$")
      list(APPEND objects ${source})
    elseif(IS_ABSOLUTE ${source})
      list(APPEND sources ${source})
    else()
      list(APPEND sources ${CMAKE_CURRENT_SOURCE_DIR}/${source})
    endif()
  endforeach()
  get_property(groups GLOBAL PROPERTY SNIC_GROUPS)
  foreach(group ${groups})
    get_property(files GLOBAL PROPERTY SNIC_GROUP_${group})
    set(whole ON)
    foreach(file ${files})
      if(NOT file IN_LIST sources)
        set(whole OFF)
        break()
      endif()
    endforeach()
    if(whole)
      if(NOT TARGET group_${group})
        add_library(group_${group} OBJECT ${files})
        set_target_properties(group_${group} PROPERTIES C_STANDARD 11 C_EXTENSIONS ON)
        snic_system_include(group_${group} PRIVATE ${SNIC_XXHASH_INCLUDE})
        target_link_libraries(group_${group} PRIVATE snicstore snicstore_flags)
      endif()
      list(REMOVE_ITEM sources ${files})
      list(APPEND objects $<TARGET_OBJECTS:group_${group}>)
    endif()
  endforeach()
  foreach(source ${sources})
    snic_object_name(name ${source})
    if(TARGET ${name})
      list(REMOVE_ITEM sources ${source})
      list(APPEND objects $<TARGET_OBJECTS:${name}>)
    endif()
  endforeach()
  set(${out} ${sources} ${objects} PARENT_SCOPE)
endfunction()

set(_kv examples/kv_server)
snic_group(kv_store ${_kv}/store.c ${_kv}/store_open.c ${_kv}/store_base.c ${_kv}/store_cache.c
  ${_kv}/store_swap.c ${_kv}/segment.c ${_kv}/compact_victim.c ${_kv}/log.c ${_kv}/recover.c
  ${_kv}/compact.c ${_kv}/swap.c ${_kv}/index.c ${_kv}/record.c)
snic_group(kv_engine ${_kv}/engine.c ${_kv}/engine_run.c ${_kv}/engine_room.c ${_kv}/engine_out.c
  ${_kv}/client.c ${_kv}/message.c ${_kv}/stats.c ${_kv}/slow.c ${_kv}/tenant.c ${_kv}/command.c
  ${_kv}/commands.c ${_kv}/command_args.c ${_kv}/command_read.c ${_kv}/command_write.c
  ${_kv}/command_sub.c ${_kv}/command_keys.c ${_kv}/command_strings.c ${_kv}/command_numbers.c
  ${_kv}/command_ranges.c ${_kv}/command_expire.c ${_kv}/command_scan.c ${_kv}/command_move.c
  ${_kv}/command_dump.c ${_kv}/command_object.c ${_kv}/command_script.c ${_kv}/command_server.c
  ${_kv}/command_session.c ${_kv}/command_client.c ${_kv}/command_config.c
  ${_kv}/command_transaction.c ${_kv}/command_docs.c ${_kv}/command_info.c ${_kv}/command_slow.c
  ${_kv}/transaction.c ${_kv}/script.c ${_kv}/sha1.c)
set(_resp examples/resp)
snic_group(resp_read ${_resp}/resp.c)
snic_group(resp_dump ${_resp}/rdb.c)
snic_group(resp_session ${_resp}/reply.c ${_resp}/arguments.c ${_resp}/session.c ${_resp}/config.c
  ${_resp}/settings.c ${_resp}/glob.c ${_resp}/docs.c ${_resp}/docs_data.c)
set(_server examples/server)
snic_group(front ${_server}/front.c ${_server}/front_conn.c ${_server}/front_limit.c
  ${_server}/front_out.c)
snic_group(roles ${_server}/config.c ${_server}/dpu.c ${_server}/host.c ${_server}/image.c
  ${_server}/remote.c ${_server}/supervisor.c ${_server}/monolith.c)
snic_group(server_memory ${_server}/memory.c)
set(_ddp examples/ddp_server)
snic_group(ddp_commands ${_ddp}/shard.c ${_ddp}/mail.c ${_ddp}/state.c ${_ddp}/error.c
  ${_ddp}/client.c ${_ddp}/request.c ${_ddp}/commands.c ${_ddp}/dispatch.c ${_ddp}/look.c
  ${_ddp}/command_string.c ${_ddp}/command_key.c ${_ddp}/command_scan.c ${_ddp}/command_store.c
  ${_ddp}/command_session.c ${_ddp}/command_client.c ${_ddp}/command_dump.c
  ${_ddp}/command_monitor.c ${_ddp}/command_durability.c ${_ddp}/slow.c ${_ddp}/command_server.c
  ${_ddp}/scope.c ${_ddp}/watch.c ${_ddp}/cluster.c ${_ddp}/command_admin.c)
set(_page examples/page_server)
snic_group(pages ${_page}/page.c ${_page}/wire.c)
snic_group(page_engine ${_page}/engine.c ${_page}/request.c ${_page}/replay.c ${_page}/shape.c
  ${_page}/damage.c ${_page}/log.c)
set(_tenants examples/tenants)
snic_group(tenants_job ${_tenants}/job.c ${_tenants}/job_fio.c ${_tenants}/job_text.c)
set(_peers bench/gimbal_peers)
snic_group(gimbal_peers ${_peers}/find.c ${_peers}/fifo.c ${_peers}/gimbal.c ${_peers}/reflex.c
  ${_peers}/parda.c ${_peers}/flashfq.c)
snic_group(gimbal_sim bench/gimbal_sim.c)
snic_group(gimbal_calibration bench/gimbal_calibration.c)
snic_group(gimbal_lsm bench/gimbal_lsm_sim.c)
snic_group(hcache_peers bench/hcache_peers/ours.c bench/hcache_peers/lists.c
  bench/hcache_peers/trace.c)
