# Everything that decides how our own sources are compiled, on one interface target.
option(RELAY_WERROR "Treat warnings as errors" OFF)
option(RELAY_ORDER_MONITOR "Assert at run time that nothing is applied before it is durable" OFF)
option(RELAY_FUZZ "Build the fuzzers of tests/fuzz (clang only)" OFF)
set(RELAY_SANITIZE "" CACHE STRING "Sanitizers, comma-separated: address,undefined or thread")

add_library(relay_build_flags INTERFACE)
target_compile_features(relay_build_flags INTERFACE cxx_std_20)
target_compile_options(
  relay_build_flags
  INTERFACE
    -Wall
    -Wextra
    -Wpedantic
    -Wcast-align
    -Wcast-qual
    -Wconversion
    -Wdouble-promotion
    -Wextra-semi
    -Wformat=2
    -Wimplicit-fallthrough
    -Wmissing-declarations
    -Wnon-virtual-dtor
    -Wold-style-cast
    -Woverloaded-virtual
    -Wredundant-decls
    -Wshadow
    -Wsign-conversion
    -Wswitch-enum
    $<$<CXX_COMPILER_ID:GNU>:-Wduplicated-branches>
    $<$<CXX_COMPILER_ID:GNU>:-Wduplicated-cond>
    $<$<CXX_COMPILER_ID:GNU>:-Wlogical-op>
    $<$<BOOL:${RELAY_WERROR}>:-Werror>)

# Assertions stay on in every build: they state our own mistakes, and a recorder that goes on after
# one of those writes nonsense.
foreach(type RELEASE RELWITHDEBINFO MINSIZEREL)
  string(REPLACE "-DNDEBUG" "" CMAKE_CXX_FLAGS_${type} "${CMAKE_CXX_FLAGS_${type}}")
endforeach()
target_compile_definitions(
  relay_build_flags
  INTERFACE _GLIBCXX_ASSERTIONS
            RELAY_VERSION="${PROJECT_VERSION}"
            $<$<BOOL:${RELAY_ORDER_MONITOR}>:RELAY_ORDER_MONITOR>)

if(RELAY_SANITIZE)
  add_compile_options(-fsanitize=${RELAY_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${RELAY_SANITIZE})
  if(RELAY_SANITIZE MATCHES "thread")
    # g++ 12 warns of every fence in Asio, which TSan does not understand but does not need either.
    target_compile_options(relay_build_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  endif()
endif()

if(RELAY_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_program(RELAY_CCACHE ccache)
if(RELAY_CCACHE)
  # What one clone has compiled another one need not, wherever it lies.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1 "${RELAY_CCACHE}")
endif()
