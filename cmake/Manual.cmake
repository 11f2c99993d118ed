# Run as a script: writes PAGE, which is TEMPLATE with the commands and flags that PROGRAM itself tells.
execute_process(
  COMMAND "${PROGRAM}" __manual
  OUTPUT_VARIABLE commands
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
file(READ "${TEMPLATE}" page)
string(REPLACE "@COMMANDS@" "${commands}" page "${page}")
file(WRITE "${PAGE}" "${page}")
