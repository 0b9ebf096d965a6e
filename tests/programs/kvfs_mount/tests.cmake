# SPDX-License-Identifier: Apache-2.0 OR MIT
# The file system as it is mounted: programs that try all that POSIX and Linux promise, and real
# ones. Without sanitizers everything runs, by day on LMDB; what is nightly has that label:
# tests/run.sh runs it at night only, and by hand it skips without SNIC_NIGHTLY=1. The exerciser's
# ways of mounting take turns by day.
snic_test_program(kvfs_exerciser SOURCES kvfs_exerciser.c)
snic_test_program(kvfs_stress SOURCES kvfs_stress.c kvfs_stress_own.c kvfs_stress_walk.c)
snic_test_program(kvfs_posix SOURCES kvfs_posix.c kvfs_posix_names.c kvfs_posix_make.c
  kvfs_posix_attr.c kvfs_posix_remove.c kvfs_posix_rename.c kvfs_posix_open.c kvfs_posix_data.c
  kvfs_posix_xattr.c kvfs_posix_locks.c kvfs_posix_dirs.c)

# kvfs_mount_test(NAME STORE everyday|nightly|eachK_WHAT OPTIONS SCRIPT ARGUMENT...)
function(kvfs_mount_test name store scope options script)
  set(_labels "kvfs;fs;kvfs_mount;slow")
  set(_timeout 2400) # the scripts' own limits are shorter
  if(scope STREQUAL nightly)
    list(APPEND _labels nightly)
    set(_timeout 3600)
  elseif(scope MATCHES "^each")
    list(APPEND _labels ${scope})
    set(scope everyday)
  endif()
  add_test(NAME ${name} COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/${script} ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS "${_labels}" SKIP_RETURN_CODE 77
    TIMEOUT ${_timeout} ENVIRONMENT "KVFS_MOUNT=$<TARGET_FILE:kvfs_mount>;\
KVFS_TOOL=$<TARGET_FILE:kvfs_tool>;KVFS_STORE=${store};KVFS_SCOPE=${scope};\
KVFS_OPTIONS=${options};KVFS_SOURCE=${PROJECT_SOURCE_DIR}")
endfunction()

if(TARGET kvfs_mount AND TARGET kvfs_tool AND NOT CMAKE_CROSSCOMPILING AND NOT SNIC_SINGLE AND
   NOT SNIC_NO_ASSERT)
  set(_scope everyday)
  set(_exerciser each4_exerciser)
  set(_posix_two each2_posix_two)
  set(_rados each2_kvfs_rados)
  set(_two_mounts each2_kvfs_long)
  if(_sanitized)
    foreach(v _scope _exerciser _posix_two _rados _two_mounts)
      set(${v} nightly)
    endforeach()
  endif()
  foreach(store mem lmdb rados)
    set(_s ${_scope})
    set(_e ${_exerciser})
    if(NOT store STREQUAL lmdb)
      set(_s nightly)
      set(_e nightly)
    endif()
    kvfs_mount_test(kvfs_posix_${store} ${store} ${_s} "" kvfs_suite.sh
      $<TARGET_FILE:kvfs_posix> MNT)
    if(store STREQUAL rados) # of what runs on a cluster, this or git runs every day
      set(_e ${_rados})
    endif()
    kvfs_mount_test(kvfs_exerciser_${store} ${store} ${_e} "" kvfs_suite.sh
      $<TARGET_FILE:kvfs_exerciser> --processes 4 NIGHTLY --steps 100000 --size 8m END MNT)
    set(_s ${_scope})
    if(NOT store STREQUAL lmdb)
      set(_s nightly)
    endif()
    kvfs_mount_test(kvfs_stress_${store} ${store} ${_s} "" kvfs_suite.sh
      $<TARGET_FILE:kvfs_stress> --processes 6 NIGHTLY --steps 30000 END MNT)
  endforeach()
  # Other ways to mount: two processes; the kernel's writeback cache, which hides sizes from EFBIG
  # (Linux's, on any FUSE file system), so that it is not tried with all of POSIX.
  # What two processes share is tested over both links by turns; what is a link's own, over each.
  kvfs_mount_test(kvfs_posix_two lmdb ${_posix_two} --two-process kvfs_suite.sh
    $<TARGET_FILE:kvfs_posix> MNT)
  set(_nvmefs "--two-process --link nvmefs")
  kvfs_mount_test(kvfs_posix_nvmefs lmdb ${_posix_two} "${_nvmefs}" kvfs_suite.sh
    $<TARGET_FILE:kvfs_posix> MNT)
  kvfs_mount_test(kvfs_exerciser_nvmefs lmdb ${_exerciser} "${_nvmefs}" kvfs_suite.sh
    $<TARGET_FILE:kvfs_exerciser> --processes 4 NIGHTLY --steps 50000 END MNT)
  kvfs_mount_test(kvfs_stress_nvmefs lmdb ${_scope} "${_nvmefs}" kvfs_suite.sh
    $<TARGET_FILE:kvfs_stress> --processes 6 NIGHTLY --steps 30000 END MNT)
  kvfs_mount_test(kvfs_exerciser_two lmdb ${_exerciser} --two-process kvfs_suite.sh
    $<TARGET_FILE:kvfs_exerciser> --processes 4 NIGHTLY --steps 50000 END MNT)
  kvfs_mount_test(kvfs_exerciser_exclusive lmdb ${_exerciser} --exclusive kvfs_suite.sh
    $<TARGET_FILE:kvfs_exerciser> --processes 4 NIGHTLY --steps 50000 END MNT)
  kvfs_mount_test(kvfs_exerciser_writeback lmdb ${_exerciser} "--exclusive --kernel-writeback"
    kvfs_suite.sh $<TARGET_FILE:kvfs_exerciser> --processes 4 NIGHTLY --steps 50000 END MNT)
  # Our own reader of /dev/fuse: everything of the kernel's protocol that the mount serves; names
  # that the kernel has forgotten, groups of callers, notifications, deaths.
  set(_dev "--fuse dev")
  kvfs_mount_test(kvfs_posix_dev lmdb ${_scope} "${_dev}" kvfs_suite.sh
    $<TARGET_FILE:kvfs_posix> MNT)
  kvfs_mount_test(kvfs_stress_dev lmdb ${_scope} "${_dev}" kvfs_suite.sh
    $<TARGET_FILE:kvfs_stress> --processes 6 NIGHTLY --steps 30000 END MNT)
  kvfs_mount_test(kvfs_exerciser_dev lmdb ${_exerciser} "${_dev}" kvfs_suite.sh
    $<TARGET_FILE:kvfs_exerciser> --processes 4 NIGHTLY --steps 50000 END MNT)
  kvfs_mount_test(kvfs_exerciser_dev_writeback lmdb nightly
    "${_dev} --exclusive --kernel-writeback" kvfs_suite.sh
    $<TARGET_FILE:kvfs_exerciser> --processes 4 --steps 50000 MNT)
  kvfs_mount_test(kvfs_held_dev lmdb ${_scope} "${_dev}" kvfs_held.sh)
  kvfs_mount_test(kvfs_setid_dev lmdb ${_scope} "${_dev}" kvfs_setid.sh)
  kvfs_mount_test(kvfs_two_mounts_dev lmdb ${_two_mounts} "${_dev}" kvfs_two_mounts.sh)
  kvfs_mount_test(kvfs_deaths_dev lmdb ${_posix_two} "${_dev}" kvfs_deaths.sh)
  kvfs_mount_test(kvfs_posix_dev_two lmdb nightly "${_dev} --two-process" kvfs_suite.sh
    $<TARGET_FILE:kvfs_posix> MNT)
  kvfs_mount_test(kvfs_open_files lmdb ${_scope} "" kvfs_open_files.sh)
  kvfs_mount_test(kvfs_spin lmdb ${_scope} "" kvfs_spin.sh)
  kvfs_mount_test(kvfs_sparse lmdb ${_scope} "" kvfs_sparse.sh)
  kvfs_mount_test(kvfs_overlay lmdb ${_scope} "" kvfs_overlay.sh)
  kvfs_mount_test(kvfs_options lmdb ${_scope} "" kvfs_options.sh)
  kvfs_mount_test(kvfs_options_two lmdb ${_posix_two}
    "--two-process --cache-size 4M --cache-writeback" kvfs_options.sh)
  # Beside a plain folder: inodes that the kernel has after their last name has gone.
  kvfs_mount_test(kvfs_held lmdb ${_scope} "" kvfs_held.sh)
  kvfs_mount_test(kvfs_held_two lmdb ${_posix_two} --two-process kvfs_held.sh)
  kvfs_mount_test(kvfs_held_nvmefs lmdb ${_posix_two}
    "${_nvmefs} --cache-size 4M --cache-writeback" kvfs_held.sh)
  # Beside a plain folder: set-uid, set-gid and capabilities.
  kvfs_mount_test(kvfs_setid lmdb ${_scope} "" kvfs_setid.sh)
  kvfs_mount_test(kvfs_setid_two lmdb ${_posix_two} --two-process kvfs_setid.sh)
  kvfs_mount_test(kvfs_setid_nvmefs lmdb ${_posix_two} "${_nvmefs}" kvfs_setid.sh)
  kvfs_mount_test(kvfs_two_mounts lmdb ${_two_mounts} "" kvfs_two_mounts.sh)
  kvfs_mount_test(kvfs_large lmdb ${_scope} "" kvfs_large.sh)
  kvfs_mount_test(kvfs_large_two lmdb nightly --two-process kvfs_large.sh)
  kvfs_mount_test(kvfs_large_nvmefs lmdb nightly "${_nvmefs}" kvfs_large.sh)
  kvfs_mount_test(kvfs_big_folder lmdb ${_two_mounts} "" kvfs_big_folder.sh)
  kvfs_mount_test(kvfs_big_folder_two lmdb nightly --two-process kvfs_big_folder.sh)
  kvfs_mount_test(kvfs_big_folder_nvmefs lmdb nightly "${_nvmefs}" kvfs_big_folder.sh)
  kvfs_mount_test(kvfs_big_folder_rados rados nightly "" kvfs_big_folder.sh)
  snic_test(kvfs_carriers kvfs)
  target_include_directories(test_kvfs_carriers SYSTEM PRIVATE ${SNIC_FUSE3_INCLUDE_DIRS})
  foreach(p hostile hostile_nvmefs liar)
    snic_test_program(kvfs_${p} SOURCES kvfs_${p}.c
      LIBS snicstore_uring snicstore Threads::Threads)
  endforeach()
  kvfs_mount_test(kvfs_hostile lmdb ${_scope} "" kvfs_hostile.sh $<TARGET_FILE:kvfs_hostile>)
  kvfs_mount_test(kvfs_hostile_nvmefs lmdb ${_scope} "--link nvmefs" kvfs_hostile.sh
    $<TARGET_FILE:kvfs_hostile_nvmefs>)
  kvfs_mount_test(kvfs_roles lmdb ${_scope} "" kvfs_roles.sh $<TARGET_FILE:kvfs_liar> ring)
  kvfs_mount_test(kvfs_roles_nvmefs lmdb ${_scope} "" kvfs_roles.sh
    $<TARGET_FILE:kvfs_liar> nvmefs)
  kvfs_mount_test(kvfs_deaths lmdb ${_scope} "" kvfs_deaths.sh)
  kvfs_mount_test(kvfs_deaths_nvmefs lmdb ${_scope} "--link nvmefs" kvfs_deaths.sh)
  # The hybrid cache before the link. Its own, over each link by turns; what all mounts are tried
  # with takes turns, too.
  set(_cache "--two-process --cache-size 4M")
  set(_cache_own each2_kvfs_cache)
  set(_cache_all each6_kvfs_cache_all)
  if(_sanitized)
    set(_cache_own nightly)
    set(_cache_all nightly)
  endif()
  kvfs_mount_test(kvfs_cache_ring lmdb ${_cache_own} "" kvfs_cache.sh ring)
  kvfs_mount_test(kvfs_cache_nvmefs lmdb ${_cache_own} "" kvfs_cache.sh nvmefs)
  foreach(v "both|" "back|--cache-writeback --prefetch"
      "nvmefs|--link nvmefs --cache-writeback --prefetch")
    string(REGEX REPLACE "\\|.*" "" _v "${v}")
    string(REGEX REPLACE ".*\\|" "" _o "${v}")
    kvfs_mount_test(kvfs_exerciser_cache_${_v} lmdb ${_cache_all} "${_cache} ${_o}" kvfs_suite.sh
      $<TARGET_FILE:kvfs_exerciser> --processes 4 NIGHTLY --steps 50000 END MNT)
    kvfs_mount_test(kvfs_stress_cache_${_v} lmdb ${_cache_all} "${_cache} ${_o}" kvfs_suite.sh
      $<TARGET_FILE:kvfs_stress> --processes 6 NIGHTLY --steps 30000 END MNT)
    kvfs_mount_test(kvfs_posix_cache_${_v} lmdb nightly "${_cache} ${_o}" kvfs_suite.sh
      $<TARGET_FILE:kvfs_posix> MNT)
    kvfs_mount_test(kvfs_two_mounts_cache_${_v} lmdb nightly "${_cache} ${_o}"
      kvfs_two_mounts.sh)
    kvfs_mount_test(kvfs_large_cache_${_v} lmdb nightly "${_cache} ${_o}" kvfs_large.sh)
    kvfs_mount_test(kvfs_deaths_cache_${_v} lmdb nightly "--cache-size 4M ${_o}" kvfs_deaths.sh)
  endforeach()
  kvfs_mount_test(kvfs_stress_two lmdb nightly --two-process kvfs_suite.sh
    $<TARGET_FILE:kvfs_stress> --processes 6 --steps 30000 MNT)
  if(NOT _sanitized)
    foreach(p git build sqlite postgres tar rsync fio dbench stressng bonnie)
      kvfs_mount_test(kvfs_program_${p} lmdb each2_kvfs_program "" kvfs_programs.sh ${p})
      set(_s nightly)
      if(p STREQUAL git)
        set(_s ${_rados})
      endif()
      kvfs_mount_test(kvfs_program_${p}_rados rados ${_s} "" kvfs_programs.sh ${p})
    endforeach()
    kvfs_mount_test(kvfs_two_rados rados ${_rados} "" kvfs_two_rados.sh)
    kvfs_mount_test(kvfs_osd rados nightly "" kvfs_osd.sh)
    # One after the other: they measure nothing, but they are many processes each.
    set_tests_properties(kvfs_program_postgres kvfs_program_stressng kvfs_program_dbench
      PROPERTIES PROCESSORS 2)
  endif()
endif()
if(TARGET kvfs_mount AND TARGET kvfs_tool AND NOT CMAKE_CROSSCOMPILING AND NOT SNIC_SINGLE)
  add_test(NAME kvfs_mount_program COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/kvfs_mount_program.sh)
  set_tests_properties(kvfs_mount_program PROPERTIES LABELS "fs;kvfs_mount;slow;waits"
    SKIP_RETURN_CODE 77 TIMEOUT 2400
    ENVIRONMENT "KVFS_MOUNT=$<TARGET_FILE:kvfs_mount>;KVFS_TOOL=$<TARGET_FILE:kvfs_tool>")
endif()
