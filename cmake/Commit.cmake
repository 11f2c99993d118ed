# Run as a script: writes HEADER with the commit of SOURCE, if that is the top of a git repository. The file
# is touched only when it changes, so that a build without a new commit compiles nothing.
execute_process(
  COMMAND git -C "${SOURCE}" rev-parse --show-toplevel
  OUTPUT_VARIABLE top
  ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
set(commit "")
file(REAL_PATH "${SOURCE}" source)
if(top STREQUAL source)
  execute_process(
    COMMAND git -C "${SOURCE}" rev-parse --short=12 HEAD
    OUTPUT_VARIABLE commit
    ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
set(text "// Written at every build by cmake/Commit.cmake.\n#pragma once\n#define RELAY_COMMIT \"${commit}\"\n")
set(before "")
if(EXISTS "${HEADER}")
  file(READ "${HEADER}" before)
endif()
if(NOT before STREQUAL text)
  file(WRITE "${HEADER}" "${text}")
endif()
