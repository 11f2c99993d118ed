# relay_room(<name> SOURCES <file>... [USES <room>...] [PACKAGES <target>...])
# One folder, one static library, one namespace. USES lists the rooms whose headers this one may
# include; tests/tidy holds the includes to it, because the compiler cannot.
function(relay_room name)
  cmake_parse_arguments(PARSE_ARGV 1 room "" "" "SOURCES;USES;PACKAGES")
  add_library(relay_${name} STATIC ${room_SOURCES})
  target_include_directories(relay_${name} PUBLIC "${PROJECT_SOURCE_DIR}")
  foreach(used IN LISTS room_USES)
    target_link_libraries(relay_${name} PUBLIC relay_${used})
  endforeach()
  target_link_libraries(relay_${name} PUBLIC ${room_PACKAGES} PRIVATE relay_build_flags)
endfunction()

# relay_program(<binary> MAIN <file> ROOM <room>)
# The binary lands in <build>/bin; its main file holds nothing that a test would want.
function(relay_program binary)
  cmake_parse_arguments(PARSE_ARGV 1 program "" "MAIN;ROOM" "")
  add_executable(${binary} ${program_MAIN})
  set_target_properties(${binary} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
  target_link_libraries(${binary} PRIVATE relay_${program_ROOM} relay_build_flags)
  install(TARGETS ${binary} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT programs)
endfunction()
