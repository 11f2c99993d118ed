# Run by `cmake --install`: what is different under another prefix.
function(relay_install_text text path)
  file(WRITE "$ENV{DESTDIR}${path}" "${text}")
  file(
    CHMOD "$ENV{DESTDIR}${path}"
    PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  message(STATUS "Installing: $ENV{DESTDIR}${path}")
endfunction()

# The units start the program that is installed with them.
foreach(unit IN ITEMS user/agent-relayd.service system/agent-relayd@.service)
  cmake_path(GET unit FILENAME name)
  file(READ "${RELAY_SOURCE}/systemd/${name}" text)
  string(REPLACE "/usr/bin/agent-relayd" "${CMAKE_INSTALL_PREFIX}/${RELAY_BINDIR}/agent-relayd" text "${text}")
  relay_install_text("${text}" "${CMAKE_INSTALL_PREFIX}/lib/systemd/${unit}")
endforeach()

# Debian's zsh looks for what packages bring, and what others put below /usr/local, at different places.
set(zsh_directory site-functions)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr" AND EXISTS /etc/debian_version)
  set(zsh_directory vendor-completions)
endif()
file(READ "${RELAY_SOURCE}/completions/_agent-relay" text)
relay_install_text("${text}" "${CMAKE_INSTALL_PREFIX}/${RELAY_DATADIR}/zsh/${zsh_directory}/_agent-relay")

# The programs read /etc. An administrator's file is never replaced.
set(configuration "/etc/agent-relay/config.toml")
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr" AND NOT EXISTS "$ENV{DESTDIR}${configuration}")
  file(READ "${RELAY_SOURCE}/docs/config.toml" text)
  relay_install_text("${text}" "${configuration}")
endif()
