# SPDX-License-Identifier: Apache-2.0 OR MIT
# The scripts of examples/ddp_cluster print what they always printed.
if(TARGET ddp_cluster AND NOT CMAKE_CROSSCOMPILING AND NOT SNIC_SINGLE)
  foreach(run write:strict models:strict models:renf split:synch scope:scope)
    string(REPLACE ":" ";" run ${run})
    list(GET run 0 script)
    list(GET run 1 model)
    set(path ${PROJECT_SOURCE_DIR}/examples/ddp_cluster/${script})
    add_test(NAME ddp_cluster_${script}_${model} COMMAND sh -c
      "\"$0\" --model $1 \"$2.script\" | diff -u \"$2.$1\" -" $<TARGET_FILE:ddp_cluster>
      ${model} ${path})
    set_tests_properties(ddp_cluster_${script}_${model} PROPERTIES LABELS replica TIMEOUT 120)
  endforeach()
  add_test(NAME ddp_cluster_words COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/ddp_cluster.sh
    $<TARGET_FILE:ddp_cluster>)
  set_tests_properties(ddp_cluster_words PROPERTIES LABELS replica TIMEOUT 600)
endif()
