/** The rail where there is no room beside the steps. */
import { Dialog } from "@base-ui/react/dialog";
import { Rail } from "./Rail";

export default function RailDrawer({ close }: { close: () => void }) {
  return (
    <Dialog.Root open onOpenChange={(open) => open || close()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="scrim" />
        <Dialog.Popup className="drawer">
          <Dialog.Title className="hidden-words">Runs</Dialog.Title>
          <Rail />
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
